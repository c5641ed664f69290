"""Accuracy over a stream of tasks.

R[t, i] is the accuracy (percent) on task i after learning task t; both count from 0 here. Entries that were not
measured are NaN. The measures follow GEM (Lopez-Paz and Ranzato, 2017) and Chaudhry et al. (2018).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

AccuracyRow = list[float | None]  # the accuracy on each task; None: the method cannot say


@dataclass
class AccuracyMatrix:
    tasks: int
    rows: NDArray[np.float64] = field(init=False)
    untrained: NDArray[np.float64] = field(init=False)  # accuracy of the network before any learning

    def __post_init__(self) -> None:
        self.rows = np.full((self.tasks, self.tasks), np.nan)
        self.untrained = np.full(self.tasks, np.nan)

    def average(self) -> float | None:
        """Mean accuracy over all tasks at the end."""
        return _number(self.rows[-1].mean())

    def forgetting(self) -> float | None:
        """How far each earlier task has fallen from its best, on average."""
        earlier = self.rows[:, :-1]
        if self.tasks < 2 or np.isnan(np.tril(self.rows)).any():
            return None
        best = np.where(np.tri(self.tasks, self.tasks - 1, dtype=bool), earlier, -np.inf).max(axis=0)
        return _number((best - earlier[-1]).mean())

    def backward_transfer(self) -> float | None:
        """How learning later tasks changed the earlier ones; negative: forgotten."""
        if self.tasks < 2:
            return None
        return _number((self.rows[-1, :-1] - np.diagonal(self.rows)[:-1]).mean())

    def forward_transfer(self) -> float | None:
        """How much better than the untrained network a task is done just before it is learned."""
        if self.tasks < 2:
            return None
        return _number((np.diagonal(self.rows, offset=1) - self.untrained[1:]).mean())

    def summary(self) -> dict[str, float | None]:
        return {
            "average": self.average(),
            "forgetting": self.forgetting(),
            "bwt": self.backward_transfer(),
            "fwt": self.forward_transfer(),
        }

    def to_json(self) -> dict[str, Any]:
        return {"rows": _nullable(self.rows), "untrained": _nullable(self.untrained)}

    @classmethod
    def from_json(cls, content: dict[str, Any], tasks: int) -> "AccuracyMatrix":
        """Raises ValueError if the content is not a matrix of so many tasks."""
        matrix = cls(tasks)
        if np.shape(content["rows"]) != (tasks, tasks) or np.shape(content["untrained"]) != (tasks,):
            raise ValueError("the accuracies are not those of this stream")
        matrix.rows[...] = np.array(content["rows"], dtype=np.float64)
        matrix.untrained[...] = np.array(content["untrained"], dtype=np.float64)
        return matrix


def class_il_and_task_il(
    logits: NDArray[Any], labels: NDArray[np.int64], own_classes: range, candidates: int
) -> tuple[float, float]:
    """Percent correct of one task's samples, both ways, from the same logits.

    Class-IL: the largest among the first `candidates` classes. Task-IL: the largest among the task's own classes.
    """
    class_il = logits[:, :candidates].argmax(axis=1) == labels
    task_il = logits[:, own_classes.start : own_classes.stop].argmax(axis=1) + own_classes.start == labels
    return 100 * float(class_il.mean()), 100 * float(task_il.mean())


def mean_row(rows: Sequence[AccuracyRow]) -> AccuracyRow:
    """The mean of several evaluations of the same tasks."""
    return [_number(value) for value in np.mean(np.array(rows, dtype=np.float64), axis=0)]


def _number(value: np.floating) -> float | None:
    """JSON has no NaN: a measure that is not defined is None."""
    return None if np.isnan(value) else float(value)


def _nullable(values: NDArray[np.float64]) -> Any:
    blank = values.astype(object)
    blank[np.isnan(values)] = None
    return blank.tolist()
