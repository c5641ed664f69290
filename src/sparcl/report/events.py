"""The lines of metrics.jsonl, checked: whatever they hold, only numbers that make sense come out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from sparcl.checked import Bounds, Checked, WrongValueError, check, plain, setting
from sparcl.errors import SparclError
from sparcl.learning.run_directory import RunDirectory

_T = TypeVar("_T")
Count = Annotated[int, Bounds(ge=0, le=10**30)]
TaskNumber = Annotated[int, Bounds(ge=0, le=10**5)]  # the page has a place for each
EpochNumber = Annotated[int, Bounds(ge=0, le=10**12)]
Share = Annotated[float, Bounds(ge=0, le=1)]
Percent = Annotated[float, Bounds(ge=0, le=100)]


class Stored(Checked, ignores_unknown=True):
    """A newer version may have written more."""


class Epoch(Stored):
    task: TaskNumber
    epoch: EpochNumber
    steps: Count
    samples: Count | None = None  # older versions did not count them
    loss: Annotated[float, Bounds(ge=-3e38, le=3e38)]  # what is drawn and logged is float32
    train_accuracy: Percent
    density: Share | None = None  # dense runs have none
    gradient_density: Share | None = None


class LayerChange(Stored):
    active: Count
    density: Share
    removed: Count
    grown: Count
    survivors_by_age: dict[int, Count] = setting(factory=dict)

    @property
    def churn(self) -> float:
        """The share of the layer's active weights that was removed or grown, percent."""
        return 100 * (self.removed + self.grown) / self.active if self.active else 0.0


class Adjustment(Stored):
    """A change of masks, or of the samples that are presented."""

    task: TaskNumber
    epoch: EpochNumber
    layers: dict[str, LayerChange] = setting(factory=dict)
    removed_samples: Count = 0


class Evaluation(Stored):
    """Of the untrained network, or at the end of a task."""

    task: TaskNumber | None = None
    class_il: list[Percent | None] | None = None
    task_il: list[Percent | None] | None = None
    domain_il: list[Percent | None] | None = None
    class_il_snapshots: list[Percent | None] | None = None
    task_il_snapshots: list[Percent | None] | None = None
    domain_il_snapshots: list[Percent | None] | None = None

    def rows(self) -> dict[str, list[float | None]]:
        """By kind."""
        return {name: row for name, row in plain(self).items() if name != "task" and row is not None}


@dataclass(frozen=True)
class History:
    """Everything that happened, in order."""

    epochs: Sequence[Epoch]
    adjustments: Sequence[Adjustment]
    evaluations: Sequence[Evaluation]
    untrained: Evaluation | None

    @classmethod
    def of(cls, directory: RunDirectory) -> "History":
        kinds: dict[str, tuple[type[Stored], list[Any]]] = {
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


def validated(kind: type[_T], content: Any, blame: str) -> _T:
    """The content as this class, or one line that begins with `blame`."""
    try:
        return check(kind, content)
    except WrongValueError as wrong:
        raise SparclError(f"{blame}: {wrong}.") from None
