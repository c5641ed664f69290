"""The numbers of a run that are shown first, and what they are compared with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sparcl.errors import SparclError
from sparcl.learning.costs import count_dense
from sparcl.metrics import AccuracyMatrix
from sparcl.metrics.costs import Convention
from sparcl.report.comparison import distinct_names
from sparcl.report.run_record import RunRecord

# What a sparse run and the dense one that it is compared with must have in common.
ALIKE = (
    "dataset",
    "method",
    "model",
    "width",
    "epochs",
    "data",
    "batch_size",
    "drop_last",
    "replay_batch_size",
    "buffer_size",
)


@dataclass(frozen=True, eq=False)
class RunView:
    """A run as a page shows it: under a name that tells it from the others, in a colour of its own."""

    run: RunRecord
    name: str
    series: int


def views(runs: Sequence[RunRecord]) -> list[RunView]:
    names = distinct_names([run.settings for run in runs])
    if len({run.settings.dataset for run in runs}) == 1:
        names = [name.partition("/")[2] for name in names]
    for details in ([f" seed={run.settings.seed}" for run in runs], [f" ({run.path.name})" for run in runs]):
        names = [name + detail if names.count(name) > 1 else name for name, detail in zip(names, details, strict=True)]
    return [RunView(run, name, place) for place, (run, name) in enumerate(zip(runs, names, strict=True))]


def after_each_task(run: RunRecord, kind: str) -> list[tuple[int, float | None, float | None]]:
    """Task, average accuracy and forgetting over the tasks so far, for each task after which something was measured."""
    matrix = run.judged(kind)
    found = []
    for task in run.learned_rows(kind):
        so_far = AccuracyMatrix(task + 1)
        so_far.rows[...] = matrix.rows[: task + 1, : task + 1]
        found.append((task, so_far.average(), so_far.forgetting()))
    return found


def newest(run: RunRecord, kind: str) -> tuple[float | None, float | None]:
    """Average accuracy and forgetting after the newest task."""
    found = after_each_task(run, kind)
    return found[-1][1:] if found else (None, None)


def leading_kind(run: RunRecord) -> str | None:
    """The accuracy that a run is judged by first: Class-IL unless the method has none."""
    measured = [kind for kind in run.kinds if run.learned_rows(kind)]
    return measured[0] if measured else None


def baseline_of(run: RunRecord, runs: Sequence[RunRecord]) -> RunRecord | None:
    """The dense run to compare a sparse one with: same data, network and method, if possible the same seed."""
    alike = [
        other
        for other in runs
        if other.dense
        and other.finished
        and not run.dense
        and all(getattr(other.settings, key) == getattr(run.settings, key) for key in ALIKE)
    ]
    return min(alike, key=lambda other: other.settings.seed != run.settings.seed, default=None)


@dataclass(frozen=True)
class Cost:
    """Something that a training takes, and what the same training takes dense."""

    title: str
    caption: str
    measure: Callable[[RunRecord], float | None]
    planned_dense: Callable[[RunRecord], float | None] = lambda run: None  # where there is no dense run
    comparable: Callable[[RunRecord, RunRecord], bool] = lambda run, dense: True

    def share_of_dense(self, run: RunRecord, runs: Sequence[RunRecord]) -> tuple[float, bool] | None:
        """Percent, and whether the dense training was only planned. Not for dense or unfinished runs."""
        value, baseline = self.measure(run), baseline_of(run, runs)
        if run.dense or not run.finished or value is None or (baseline and not self.comparable(run, baseline)):
            return None
        dense = self.measure(baseline) if baseline else self.planned_dense(run)
        return (100 * value / dense, baseline is None) if dense else None


def flops(run: RunRecord, convention: Convention) -> int | None:
    if run.costs is None or run.costs.flops is None:
        return None
    return run.costs.flops.paper.total if convention == "paper" else run.costs.flops.full.total


def planned_dense_flops(run: RunRecord, convention: Convention) -> int | None:
    """What the run would have cost dense; known without such a run, if its data are."""
    if run.stream is None:
        return None
    samples = [task.train for task in run.stream.tasks]
    try:
        counter = count_dense(run.settings, samples, run.stream.image_shape, len(run.stream.class_names))
    except (SparclError, ValueError, KeyError, ArithmeticError):  # a network or a method that is not known here
        return None
    return counter.total(convention)


def train_seconds(run: RunRecord) -> float | None:
    return run.costs.seconds.get("train") if run.costs else None


def where(run: RunRecord) -> tuple[object, ...]:
    """What decides how fast training is, apart from the training itself."""
    return run.settings.threads, run.environment.get("processor"), run.environment.get("instruction_set")


def peak_memory(run: RunRecord) -> float | None:
    return run.costs.peak_memory_mb if run.costs else None


FULL_FLOPS = Cost(
    "FLOPs, every pass",
    "All forward and backward passes that ran, replay and the choice of masks included.",
    lambda run: flops(run, "full"),
    lambda run: planned_dense_flops(run, "full"),
)
PAPER_FLOPS = Cost(
    "FLOPs, as the paper counts",
    "The current batch, and of a replayed batch only the forward pass.",
    lambda run: flops(run, "paper"),
    lambda run: planned_dense_flops(run, "paper"),
)
TRAINING_TIME = Cost(
    "Time to train",
    "Of the training steps and what is done between them, without evaluations and checkpoints.",
    train_seconds,
    comparable=lambda run, dense: where(run) == where(dense),
)
MEMORY = Cost("Peak memory", "Measured, of the whole process.", peak_memory)
