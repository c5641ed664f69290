"""The whole state of a learner or a run: what goes into a checkpoint, and how it comes back.

Whatever comes from a file is checked here before it is used: a checkpoint of another run, of changed data or settings,
or one that was tampered with raises ValueError (or KeyError, TypeError, ... where something is missing or odd).
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from sparcl.data import Task
from sparcl.learning.evaluation import kinds
from sparcl.learning.position import Position
from sparcl.learning.settings import fingerprint
from sparcl.metrics import AccuracyMatrix
from sparcl.network.restoring import network_tensors, part, restore_network
from sparcl.tensor_files import Tensors

if TYPE_CHECKING:
    from sparcl.learning.loop import Loop
    from sparcl.learning.trainer import Trainer


def capture_loop(loop: "Loop") -> tuple[Tensors, dict[str, Any]]:
    """What learning goes on from: all arrays, and everything else as JSON."""
    tensors = network_tensors(loop.network.parameters)
    tensors |= {f"updated.{name}": places for name, places in loop.network.parameters.updated.items()}
    tensors |= {f"method.{name}": array for name, array in loop.method.state().items()}
    tensors |= {f"sparsifier.{name}": array for name, array in loop.sparsifier.state().items()}
    tensors["order"] = loop.order
    return tensors, {"position": loop.position.to_json(), "generators": loop.generators.state()}


def restore_loop(loop: "Loop", tensors: Tensors, state: dict[str, Any]) -> None:
    """Everything but the place in a task, which `check_place` judges once the task is known."""
    parameters = loop.network.parameters
    restore_network(loop.network.graph, parameters, tensors)
    parameters.updated = part(tensors, "updated.")
    for name, places in parameters.updated.items():
        active = len(parameters.index[name])
        if places.dtype != np.int32 or places.ndim != 1 or not ((places >= 0) & (places < active)).all():
            raise ValueError(f"the updated weights of {name} are not among the active ones")
        if (np.diff(places) <= 0).any():
            raise ValueError(f"the updated weights of {name} are not sorted")
    loop.position = Position.from_json(state["position"])
    loop.method.restore(part(tensors, "method."), loop.position.task)
    loop.sparsifier.restore(part(tensors, "sparsifier."))
    loop.order = tensors["order"]
    loop.generators.restore(state["generators"])


def capture(trainer: "Trainer") -> tuple[Tensors, dict[str, Any]]:
    """A whole run."""
    tensors, state = capture_loop(trainer)
    metrics_length, metrics_checksum = trainer.log.sync()
    return tensors, {
        "settings": fingerprint(trainer.settings),
        "data": trainer.stream.fingerprint,
        **state,
        "accuracy": {kind: matrix.to_json() for kind, matrix in trainer.accuracy.items()},
        "flops": trainer.watcher.counter.to_json(),
        "seconds": trainer.clock.seconds,
        "peak_memory_mb": trainer.peak_memory_mb(),
        "metrics_length": metrics_length,
        "metrics_checksum": metrics_checksum,
    }


def restore(trainer: "Trainer", tensors: Tensors, state: dict[str, Any]) -> None:
    if state["settings"] != fingerprint(trainer.settings):
        raise ValueError("settings.json was changed since")
    if state["data"] != trainer.stream.fingerprint:
        raise ValueError("the data set has changed since")
    if not np.isfinite(tensors.get("method.buffer.logits", 0.0)).all():
        raise ValueError("the buffer holds logits that are not numbers")
    restore_loop(trainer, tensors, state)
    position = trainer.position
    if position.task > len(trainer.tasks) or (position.task == len(trainer.tasks) and position.begun):
        raise ValueError("the position lies outside of the run")
    if any(snapshot.keys() != set(kinds(trainer.stream)) for snapshot in position.snapshots):
        raise ValueError("the snapshots are those of another kind of run")
    if position.begun:
        check_place(trainer, trainer.tasks[position.task])
    trainer.watcher.counter.restore(state["flops"])
    trainer.accuracy = {
        kind: AccuracyMatrix.from_json(state["accuracy"][kind], len(trainer.stream.tasks)) for kind in trainer.accuracy
    }
    trainer.clock.seconds = {str(phase): float(seconds) for phase, seconds in state["seconds"].items()}
    trainer.peak_before = float(state.get("peak_memory_mb", 0.0))
    trainer.log.cut(int(state["metrics_length"]), state.get("metrics_checksum"))


def check_place(loop: "Loop", task: Task) -> None:
    """That the position and the order of samples are possible in this task."""
    position, order = loop.position, loop.order
    if position.epoch > loop.epochs or (position.epoch == loop.epochs and position.step):
        raise ValueError("the position lies outside of the run")
    if position.epoch == loop.epochs:
        return
    present = loop.sparsifier.samples(task)
    if len(present) != loop.sparsifier.samples_in_epoch(task, position.epoch):
        raise ValueError("the samples still present are not as many as they should be")
    if position.step == 0:  # the order is drawn with the first step
        return
    if order.dtype != np.int64 or not np.array_equal(np.sort(order), present):
        raise ValueError("the order of samples is not one of this task's")
    if position.step > loop.batches(len(order)):
        raise ValueError("the position lies outside of the epoch")
