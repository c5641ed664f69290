"""A run's metrics as a list of numbers, each with a name and the step at which it was true; and that list as CSV."""

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, fields

from sparcl.learning.run_directory import RunDirectory
from sparcl.report.events import Adjustment, Epoch, Evaluation, History


@dataclass(frozen=True)
class Scalar:
    step: int  # training steps done since the run began
    task: int  # from 1
    epoch: int  # of the task, from 1; 0 where no epoch belongs to it
    metric: str
    value: float


def scalars(directory: RunDirectory) -> list[Scalar]:
    """In the order in which they were measured."""
    history = History.of(directory)
    steps_until: dict[tuple[int, int], int] = {}
    total = 0
    for epoch in history.epochs:
        total += epoch.steps
        steps_until[epoch.task, epoch.epoch] = total
    found = [number for epoch in history.epochs for number in _of_epoch(epoch, steps_until)]
    found += [number for move in history.adjustments for number in _of_adjustment(move, steps_until)]
    found += [number for evaluation in history.evaluations for number in _of_evaluation(evaluation, steps_until)]
    return sorted(found, key=lambda number: number.step)  # stable: numbers of one step keep their order


def as_csv(numbers: Iterable[Scalar]) -> str:
    """One line a number: a table program or pandas can turn it as it likes."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([field.name for field in fields(Scalar)])
    writer.writerows(map(astuple, numbers))
    return text.getvalue().encode(errors="replace").decode()  # names need not be proper text


def _of_epoch(epoch: Epoch, steps: dict[tuple[int, int], int]) -> Iterator[Scalar]:
    for name, value in vars(epoch).items():
        if name in ("task", "epoch", "steps") or value is None:
            continue
        yield Scalar(steps[epoch.task, epoch.epoch], epoch.task + 1, epoch.epoch + 1, f"train/{name}", value)


def _of_adjustment(move: Adjustment, steps: dict[tuple[int, int], int]) -> Iterator[Scalar]:
    """It happened in or after an epoch, at whose end it is noted; one that is not over yet has no step."""
    step = steps.get((move.task, move.epoch))
    if step is None:
        return
    for name, layer in move.layers.items():
        for what in ("density", "removed", "grown"):
            yield Scalar(step, move.task + 1, move.epoch + 1, f"layers/{name}/{what}", getattr(layer, what))


def _of_evaluation(evaluation: Evaluation, steps: dict[tuple[int, int], int]) -> Iterator[Scalar]:
    task = evaluation.task or 0
    step = max((done for (of_task, _), done in steps.items() if of_task <= task), default=0)
    for kind, row in evaluation.rows().items():
        for place, accuracy in enumerate(row):
            if accuracy is not None:
                yield Scalar(step, task + 1, 0, f"{kind}/task {place + 1}", accuracy)
