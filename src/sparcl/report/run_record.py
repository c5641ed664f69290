"""All that is known of a run, read from its directory and checked; of a run in progress, all that is known so far.

What an older version did not write, or what is not there yet, is None: whoever shows it says that it is missing.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparcl.checked import plain
from sparcl.errors import SparclError
from sparcl.learning.run_directory import RunDirectory
from sparcl.learning.settings import Settings
from sparcl.metrics import AccuracyMatrix
from sparcl.metrics.costs import COUNTED
from sparcl.report.events import Count, History, Percent, Stored, validated

KINDS = {"class_il": "Class-IL", "task_il": "Task-IL", "domain_il": "Domain-IL"}
SNAPSHOTS = "_snapshots"


class StreamTask(Stored):
    classes: tuple[Count, Count]
    train: Count
    test: Count


class StreamDescription(Stored):
    name: str
    class_names: list[str]
    domains: list[str]
    image_shape: tuple[Count, Count, Count]
    tasks: list[StreamTask]


class Flops(Stored):
    total: Count
    phases: dict[str, Count]


class CountedFlops(Stored):
    paper: Flops
    full: Flops


class Costs(Stored):
    seconds: dict[str, float]
    peak_memory_mb: float | None = None  # known when a run has ended
    steps: Count | None = None
    flops: CountedFlops | None = None

    @property
    def all_seconds(self) -> float:
        return sum(self.seconds.values())


class Confusion(Stored):
    kind: str
    task: Count
    counts: list[list[Count]]


class StoredMatrix(Stored):
    rows: list[list[Percent | None]]
    untrained: list[Percent | None]


@dataclass(frozen=True)
class StoredBuffer:
    images: NDArray[np.uint8]  # [n, channels, height, width]
    labels: NDArray[np.int64]


@dataclass(frozen=True, eq=False)  # a run is itself, whatever else has the same numbers
class RunRecord:
    path: Path
    settings: Settings
    finished: bool
    warnings: tuple[str, ...]
    environment: dict[str, Any]
    stream: StreamDescription | None
    history: History
    accuracy: dict[str, AccuracyMatrix]  # by kind
    costs: Costs | None
    confusion: NDArray[np.int64] | None
    confusion_kind: str
    buffer: StoredBuffer | None

    @property
    def dense(self) -> bool:
        """Trained with all weights and all samples; SparCL may leave samples and gradients out at sparsity 0 too."""
        return self.settings.sparsifier.name == "none"

    @property
    def tasks(self) -> int:
        """How many the stream has, as far as that is known."""
        return max((matrix.tasks for matrix in self.accuracy.values()), default=0)

    @property
    def learned(self) -> int:
        return len(self.history.evaluations)

    @property
    def kinds(self) -> list[str]:
        """What was measured, without the snapshots."""
        return [kind for kind in KINDS if kind in self.accuracy]

    def judged(self, kind: str) -> AccuracyMatrix:
        """The accuracies to look at: means of snapshots where the run has them."""
        return self.accuracy.get(kind + SNAPSHOTS, self.accuracy[kind])

    def learned_rows(self, kind: str) -> list[int]:
        """The tasks after which something was measured."""
        rows = self.judged(kind).rows
        return [task for task in range(len(rows)) if not np.isnan(rows[task, : task + 1]).any()]

    @cached_property
    def class_names(self) -> list[str]:
        names = self.stream.class_names if self.stream else []
        known = len(self.confusion) if self.confusion is not None else 0
        return [*names, *(f"class {number}" for number in range(len(names), known))]

    @classmethod
    def read(cls, path: Path) -> "RunRecord":
        """Raises SparclError, in one line, for what is not a run or is damaged."""
        directory = RunDirectory.open(path)
        settings, result, history = directory.stored_settings(), directory.result(), History.of(directory)
        described = directory.stream()
        stream = None
        if described is not None:
            stream = validated(StreamDescription, described, f"{path}/stream.json is damaged")
        buffer, state = _checkpoint(directory)
        confusion, kind = _confusion(directory, stream)
        return cls(
            path=path,
            settings=settings,
            finished=result is not None,
            warnings=directory.warnings(),
            environment=directory.environment() if (path / "environment.json").exists() else {},
            stream=stream,
            history=history,
            accuracy=_measured(history, stream) if result is None else _matrices(result, path),
            costs=_costs_so_far(state) if result is None else stored_costs(directory),
            confusion=confusion,
            confusion_kind=kind,
            buffer=buffer,
        )


def _matrices(result: dict[str, Any], path: Path) -> dict[str, AccuracyMatrix]:
    matrices = {}
    blame = f"{path}/result.json is damaged"
    for kind, content in result.items():
        if kind.removesuffix(SNAPSHOTS) in KINDS:
            stored = validated(StoredMatrix, content, f"{blame}: {kind}")
            try:
                matrices[kind] = AccuracyMatrix.from_json(plain(stored), len(stored.rows))
            except ValueError as error:
                raise SparclError(f"{blame}: {kind}: {error}.") from error
    if not any(kind in matrices for kind in KINDS):
        raise SparclError(f"{blame}: it has no accuracies.")
    return matrices


def _measured(history: History, stream: StreamDescription | None) -> dict[str, AccuracyMatrix]:
    """The rows that are there while a run is in progress."""
    if history.untrained is None:
        return {}
    tasks = len(stream.tasks) if stream else max(map(len, history.untrained.rows().values()), default=0)
    if not tasks:
        return {}
    matrices: dict[str, AccuracyMatrix] = {}
    for evaluation in (history.untrained, *history.evaluations):
        for kind, row in evaluation.rows().items():
            matrix = matrices.setdefault(kind, AccuracyMatrix(tasks))
            known = np.array(row[:tasks], np.float64)
            target = matrix.untrained if evaluation.task is None else matrix.rows[min(evaluation.task, tasks - 1)]
            target[: len(known)] = known
    return matrices


def stored_costs(directory: RunDirectory) -> Costs:
    return validated(Costs, directory.costs(), f"{directory.path}/costs.json is damaged")


def _costs_so_far(state: dict[str, Any]) -> Costs | None:
    """As of the newest checkpoint."""
    try:
        counted = {phase: sum(layers) for phase, layers in state["flops"]["flops"].items()}
        flops = {
            convention: {
                "total": sum(counted.get(phase, 0) for phase in phases),
                "phases": {phase: counted.get(phase, 0) for phase in phases},
            }
            for convention, phases in COUNTED.items()
        }
        return validated(Costs, {"seconds": state["seconds"], "flops": flops}, "The newest checkpoint is damaged")
    except (KeyError, TypeError, AttributeError):
        return None


def _confusion(directory: RunDirectory, stream: StreamDescription | None) -> tuple[NDArray[np.int64] | None, str]:
    content = directory.confusion()
    if content is None:
        return None, ""
    blame = f"{directory.path}/confusion.json is damaged"
    stored = validated(Confusion, content, blame)
    size = len(stored.counts)
    if any(len(row) != size or max(row, default=0) > 10**12 for row in stored.counts):
        raise SparclError(f"{blame}: it does not hold a square table of counts.")
    if stored.kind not in KINDS or (stream is not None and size != len(stream.class_names)):
        raise SparclError(f"{blame}: it does not belong to this run.")
    return np.array(stored.counts, np.int64).reshape(size, size), stored.kind


def _checkpoint(directory: RunDirectory) -> tuple[StoredBuffer | None, dict[str, Any]]:
    """What the newest checkpoint says. One that cannot be read is as good as none: nothing is learned from it here."""
    try:
        found = directory.load_checkpoint(prefix="method.buffer.")
    except SparclError:
        found = None
    if found is None:
        return None, {}
    tensors, state = found
    images, labels = (tensors.get(f"method.buffer.{name}") for name in ("images", "labels"))
    if images is None or labels is None or not len(images):
        return None, state
    fits = images.dtype == np.uint8 and images.ndim == 4 and min(images.shape) > 0
    if not fits or labels.dtype != np.int64 or labels.shape != images.shape[:1] or (labels < 0).any():
        return None, state
    return StoredBuffer(images, labels), state
