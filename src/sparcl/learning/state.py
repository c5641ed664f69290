"""The whole state of a run: what goes into a checkpoint, and how it comes back.

Whatever comes from a file is checked here before it is used: a checkpoint of another run, of changed data or settings,
or one that was tampered with raises ValueError (or KeyError, TypeError, ... where something is missing or odd).
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sparcl.learning.checkpoints import Tensors
from sparcl.learning.position import Position
from sparcl.learning.settings import fingerprint
from sparcl.metrics import AccuracyMatrix

if TYPE_CHECKING:
    from sparcl.learning.trainer import Trainer


def capture(trainer: "Trainer") -> tuple[Tensors, dict[str, Any]]:
    """All arrays, and everything else as JSON."""
    parameters = trainer.network.parameters
    tensors: Tensors = {f"parameters.{name}": parameters.values[name] for name in parameters.values}
    tensors |= {f"statistics.{name}": parameters.statistics[name] for name in parameters.statistics}
    tensors |= {f"index.{name}": index for name, index in parameters.index.items()}
    tensors |= {f"updated.{name}": places for name, places in parameters.updated.items()}
    tensors |= {f"method.{name}": array for name, array in trainer.method.state().items()}
    tensors |= {f"sparsifier.{name}": array for name, array in trainer.sparsifier.state().items()}
    tensors["order"] = trainer.order
    state = {
        "settings": fingerprint(trainer.settings),
        "data": trainer.stream.fingerprint,
        "position": trainer.position.to_json(),
        "generators": trainer.generators.state(),
        "accuracy": {kind: matrix.to_json() for kind, matrix in trainer.accuracy.items()},
        "flops": trainer.watcher.counter.to_json(),
        "seconds": trainer.clock.seconds,
        "metrics_length": trainer.log.sync(),
    }
    return tensors, state


def restore(trainer: "Trainer", tensors: Tensors, state: dict[str, Any]) -> None:
    def part(prefix: str) -> Tensors:
        return {key.removeprefix(prefix): tensors[key] for key in tensors if key.startswith(prefix)}

    if state["settings"] != fingerprint(trainer.settings):
        raise ValueError("settings.json was changed since")
    if state["data"] != trainer.stream.fingerprint:
        raise ValueError("the data set has changed since")
    parameters = trainer.network.parameters
    parameters.set_index(part("index."))
    for prefix, store in (("parameters", parameters.values), ("statistics", parameters.statistics)):
        for name in store:
            store[name][...] = _checked(tensors[f"{prefix}.{name}"], store[name].shape)
    parameters.updated = part("updated.")
    for name, places in parameters.updated.items():
        active = len(parameters.index[name])
        if places.dtype != np.int32 or not ((places >= 0) & (places < active)).all():
            raise ValueError(f"the updated weights of {name} are not among the active ones")
    trainer.position = Position.from_json(state["position"])
    trainer.method.restore(part("method."), trainer.position.task)
    trainer.sparsifier.restore(part("sparsifier."))
    trainer.order = tensors["order"]
    _check_place(trainer)
    trainer.generators.restore(state["generators"])
    trainer.watcher.counter.restore(state["flops"])
    trainer.accuracy = {
        kind: AccuracyMatrix.from_json(state["accuracy"][kind], len(trainer.stream.tasks)) for kind in trainer.accuracy
    }
    trainer.clock.seconds = {str(phase): float(seconds) for phase, seconds in state["seconds"].items()}
    trainer.log.cut(int(state["metrics_length"]))


def _check_place(trainer: "Trainer") -> None:
    """That the position and the order of samples are possible in this run."""
    position, order = trainer.position, trainer.order
    if position.task > len(trainer.tasks) or position.epoch > trainer.settings.epochs:
        raise ValueError("the position lies outside of the run")
    if not position.step:
        return
    task = trainer.tasks[position.task]
    present = trainer.sparsifier.samples(task)
    if len(present) != trainer.sparsifier.samples_in_epoch(task, position.epoch):
        raise ValueError("the samples still present are not as many as they should be")
    if order.dtype != np.int64 or not np.array_equal(np.sort(order), present):
        raise ValueError("the order of samples is not one of this task's")
    if position.step > trainer.batches(len(order)):
        raise ValueError("the position lies outside of the epoch")


def _checked(tensor: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    if tensor.shape != shape:
        raise ValueError(f"an array of shape {tensor.shape} stands where {shape} is expected")
    return tensor
