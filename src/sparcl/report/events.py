"""The lines of metrics.jsonl, checked: whatever they hold, only numbers that make sense come out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import pydantic
from pydantic import BaseModel, ConfigDict, Field

from sparcl.errors import SparclError
from sparcl.learning.run_directory import RunDirectory

_Model = TypeVar("_Model", bound=BaseModel)
Count = Annotated[int, Field(ge=0, le=10**30)]
Share = Annotated[float, Field(ge=0, le=1)]
Percent = Annotated[float, Field(ge=0, le=100)]


class Checked(BaseModel):
    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class Epoch(Checked):
    task: Count
    epoch: Count
    steps: Count
    samples: Count | None = None  # older versions did not count them
    loss: float
    train_accuracy: Percent
    density: Share | None = None  # dense runs have none
    gradient_density: Share | None = None


class LayerChange(Checked):
    active: Count
    density: Share
    removed: Count
    grown: Count
    survivors_by_age: dict[int, Count] = {}

    @property
    def churn(self) -> float:
        """The share of the layer's active weights that was removed or grown, percent."""
        return 100 * (self.removed + self.grown) / self.active if self.active else 0.0


class Adjustment(Checked):
    """A change of masks, or of the samples that are presented."""

    task: Count
    epoch: Count
    layers: dict[str, LayerChange] = {}
    removed_samples: Count = 0


class Evaluation(Checked):
    """Of the untrained network, or at the end of a task."""

    task: Count | None = None
    class_il: list[Percent | None] | None = None
    task_il: list[Percent | None] | None = None
    domain_il: list[Percent | None] | None = None
    class_il_snapshots: list[Percent | None] | None = None
    task_il_snapshots: list[Percent | None] | None = None
    domain_il_snapshots: list[Percent | None] | None = None

    def rows(self) -> dict[str, list[float | None]]:
        """By kind."""
        found: dict[str, list[float | None]] = self.model_dump(exclude={"task"}, exclude_none=True)
        return found


@dataclass(frozen=True)
class History:
    """Everything that happened, in order."""

    epochs: Sequence[Epoch]
    adjustments: Sequence[Adjustment]
    evaluations: Sequence[Evaluation]
    untrained: Evaluation | None

    @classmethod
    def of(cls, directory: RunDirectory) -> "History":
        kinds: dict[str, tuple[type[Checked], list[Any]]] = {
            "epoch": (Epoch, []),
            "sparsity": (Adjustment, []),
            "task": (Evaluation, []),
            "untrained": (Evaluation, []),
        }
        for number, event in enumerate(directory.events(), 1):
            if event["event"] in kinds:
                model, found = kinds[event["event"]]
                found.append(validated(model, event, f"{directory.path}/metrics.jsonl is damaged in line {number}"))
        epochs, adjustments, evaluations, untrained = (found for _, found in kinds.values())
        return cls(epochs, adjustments, evaluations, untrained[-1] if untrained else None)


def validated(model: type[_Model], content: Any, blame: str) -> _Model:
    """The content as this model, or one line that begins with `blame`."""
    try:
        return model.model_validate(content)
    except pydantic.ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"]))
        raise SparclError(f"{blame}: {where}: {problem['msg'][0].lower()}{problem['msg'][1:]}.") from None
