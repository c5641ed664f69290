"""Speeds for Figures 4 and 5, measured here and now: everything that is compared takes turns, each in its process."""

import contextlib
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sparcl.bench.contender import Contender, Side, start
from sparcl.bench.loop_side import step_of
from sparcl.bench.timing import Note, Progress, Step, Times, interleaved
from sparcl.bench.versus import Protocol, measure
from sparcl.bench.watched import DEFAULT_LIMITS
from sparcl.bench.workload import Workload
from sparcl.data import load_stream
from sparcl.experiments.experiment import Experiment, Group
from sparcl.experiments.outcome import Cells, Value
from sparcl.graph import build_model
from sparcl.learning import settings
from sparcl.learning.loop import Loop
from sparcl.learning.planned_stream import stream_without_pictures
from sparcl.learning.plugins import import_plugins
from sparcl.learning.settings import Settings

ROUNDS = 7
OURS_INSTEAD = "the dense training is that of our engine."
NOT_FOR_PREDICTIONS = ("method", "sparsifier", "sparsity")  # how the weights were found; random ones are as fast


def training_speeds(
    experiment: Experiment,
    groups: Sequence[Group],
    cells: Cells,
    plugins: Sequence[Path],
    threads: int,
    note: Note,
    progress: Progress,
) -> dict[tuple[str, str], Value]:
    """How many times faster than the first row's a training step of each row is; medians."""
    found: dict[tuple[str, str], Value] = {}
    installed = find_spec("torch") is not None
    if not installed:
        note(f"PyTorch is not installed: {OURS_INSTEAD}")
    for group in groups:
        chosen = {row.label: cells[row.label, group.dataset][0].settings for row in experiment.rows}
        # What is gained is gained over PyTorch.
        on_torch = {
            label for label, one in chosen.items() if installed and (not one.sparsity or one.backend == "torch")
        }
        what = f"training steps, {group.dataset}"
        times = _measured(chosen, on_torch, plugins, threads, note, progress, what)
        if len(times) < len(chosen):
            note(f"PyTorch does not work here: {OURS_INSTEAD}")
            times = _measured(chosen, (), plugins, threads, note, progress, what)
        first = times[experiment.rows[0].label].median_ms
        found |= {(label, group.dataset): Value(first / times[label].median_ms) for label in chosen}
    return found


def _measured(
    chosen: Mapping[str, Settings],
    on_torch: Container[str],
    plugins: Sequence[Path],
    threads: int,
    note: Note,
    progress: Progress,
    what: str,
) -> dict[str, Times]:
    """Without those on PyTorch that fail."""
    started: dict[str, Contender] = {}
    with contextlib.ExitStack() as processes:
        for label, own in chosen.items():
            progress(f"{what}: preparing {label}", 0, 0)
            theirs = label in on_torch
            values = replace(own, threads=threads, tuning_seconds=0.0, backend="torch" if theirs else "auto")
            arguments = {"values": values, "plugins": [path.resolve() for path in plugins]}
            title = f"{label} on {'PyTorch' if theirs else 'our engine'}"
            side = Side(label, title, train_here, arguments, must_work=not theirs)
            started |= start(side, threads, DEFAULT_LIMITS, processes, note)
        turns = {label: contender.turn for label, contender in started.items()}
        return interleaved(turns, ROUNDS, note, progress, what)


def train_here(values: dict[str, Any], plugins: list[Path]) -> Step:
    """A step of the run's first task, as the loop does it."""
    import_plugins(plugins)
    own = settings.resolve(values)
    stream = load_stream(own.dataset, order_seed=own.seed, **vars(own.data))
    graph = build_model(own.model, stream.image_shape, stream.classes, own.width)
    loop, task = Loop(own, graph, stream.augmentation, stream.tasks), stream.tasks[0]
    return step_of(loop, task)


def prediction_times(
    experiment: Experiment,
    groups: Sequence[Group],
    protocol: str,
    changes: Sequence[str],
    threads: int,
    note: Note,
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
