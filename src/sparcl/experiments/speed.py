"""Speeds for Figures 4 and 5, measured here and now: everything that is compared takes turns in one process."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec

from sparcl.bench.timing import Progress, Step, interleaved
from sparcl.bench.versus import Protocol, measure
from sparcl.bench.workload import Workload
from sparcl.data import load_stream
from sparcl.experiments.experiment import Experiment, Group
from sparcl.experiments.outcome import Cells, Value
from sparcl.graph import build_model
from sparcl.learning import settings
from sparcl.learning.loop import Loop
from sparcl.learning.planned_stream import stream_without_pictures
from sparcl.learning.settings import Settings
from sparcl.sparsity import Moment

ROUNDS = 7
NOT_FOR_PREDICTIONS = ("method", "sparsifier", "sparsity")  # how the weights were found; random ones are as fast


def training_speeds(
    experiment: Experiment,
    groups: Sequence[Group],
    cells: Cells,
    threads: int,
    note: Callable[[str], None],
    progress: Progress,
) -> dict[tuple[str, str], Value]:
    """How many times faster than the first row's a training step of each row is; medians."""
    found: dict[tuple[str, str], Value] = {}
    if find_spec("torch") is None:
        note("PyTorch is not installed: the dense training is that of our engine.")
    for group in groups:
        chosen = {row.label: cells[row.label, group.dataset][0].settings for row in experiment.rows}
        steps = {label: _training_step(one, threads) for label, one in chosen.items()}
        times = interleaved(steps, ROUNDS, progress, f"training steps, {group.dataset}")
        first = times[experiment.rows[0].label].median_ms
        found |= {(label, group.dataset): Value(first / times[label].median_ms) for label in chosen}
    return found


def _training_step(chosen: Settings, threads: int) -> Step:
    """A step of the run's first task, as the loop does it."""
    stream = load_stream(chosen.dataset, order_seed=chosen.seed, **vars(chosen.data))
    own = replace(chosen, threads=threads, tuning_seconds=0.0)
    if not chosen.sparsity and find_spec("torch") is not None:
        own = replace(own, backend="torch")  # what is gained is gained over PyTorch
    graph = build_model(own.model, stream.image_shape, stream.classes, own.width)
    loop, task = Loop(own, graph, stream.augmentation, stream.tasks), stream.tasks[0]
    loop.sparsifier.begin_run()
    loop.method.begin_task(task)
    loop.sparsifier.begin_task(Moment(0, 0, 0, 0, own.epochs), task)

    def step() -> None:
        if loop.position.step and loop.position.step == loop.batches(len(loop.order)):
            loop.position.step = 0  # the epoch begins again: what is done between epochs is no step
        loop.train_step(task)

    return step


def prediction_times(
    experiment: Experiment,
    groups: Sequence[Group],
    protocol: str,
    changes: Sequence[str],
    threads: int,
    note: Callable[[str], None],
    progress: Progress,
) -> dict[tuple[str, str], Value]:
    """Milliseconds to predict one image, at each row's sparsity; dense is the fastest that PyTorch can do."""
    found: dict[tuple[str, str], Value] = {}
    sparse = {row.label: row.x for row in experiment.rows if row.x}
    dense = [row.label for row in experiment.rows if not row.x]
    for group in groups:
        own = {name: value for name, value in experiment.settings.items() if name not in NOT_FOR_PREDICTIONS}
        values = {"dataset": group.dataset, "protocol": protocol, "method": {"name": "sgd"}, **own}
        of_network = [change for change in changes if not change.startswith(NOT_FOR_PREDICTIONS)]
        chosen = settings.resolve(settings.with_changes(values, of_network))
        stream = stream_without_pictures(chosen)
        work = Workload(chosen.model, chosen.width, stream.image_shape[-1], batch=1, classes=stream.classes)
        rows = measure(
            "infer", work, [0.0, *sparse.values()], Protocol(threads, ROUNDS, compiled=False), note, progress
        )
        by_sparsity: Mapping[float, float] = {row.sparsity: row.native_ms for row in rows}
        best = rows[0].dense_ms if rows[0].dense_ms is not None else by_sparsity[0.0]
        found |= {(label, group.dataset): Value(best) for label in dense}
        found |= {(label, group.dataset): Value(by_sparsity[sparsity]) for label, sparsity in sparse.items()}
    return found
