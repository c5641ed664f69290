"""Everything there is to know about a learner."""

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparcl.checked import plain
from sparcl.device.base_state import BaseState
from sparcl.device.cautions import forgotten
from sparcl.device.held_out import digests
from sparcl.device.learner_directory import LearnerDirectory
from sparcl.device.model import ATTEMPTS, changing
from sparcl.errors import SparclError
from sparcl.files import is_locked
from sparcl.network.part_rates import frozen_parameters
from sparcl.sparsity.layers import sparse_layers

if TYPE_CHECKING:
    from sparcl.device.learner import Learner


def describe(learner: "Learner") -> dict[str, Any]:
    """The history as HistoryEntry, everything else as plain values.

    Also while it learns or is undone: a state that vanishes while it is read is looked for again.
    """
    for _ in range(ATTEMPTS):
        directory = LearnerDirectory.open(learner.directory)
        number = directory.states.newest()
        with contextlib.suppress(FileNotFoundError):
            found = _describe(learner, directory, BaseState(directory.states, number))
            if directory.states.newest() == number:
                return found
    raise changing(learner.directory)


def _describe(learner: "Learner", directory: LearnerDirectory, base: BaseState) -> dict[str, Any]:
    states, settings = directory.states, learner.settings
    rehearsed, labels = base.rehearsed
    _, held_labels = base.held_out
    network = _network(learner, base)
    unfinished, resumable = _unfinished(directory, base)
    learning = is_locked(learner.directory)
    if unfinished and not learning:
        unfinished, resumable = _unfinished(directory, base)  # it may have finished before the lock was looked at
    return {
        "directory": str(learner.directory),
        "learns": base.number,
        "can_undo": base.number == 1 or base.number - 1 in states.numbers(),
        "learning": unfinished and learning,
        "interrupted": unfinished and not learning,
        "resumable": resumable and not learning,
        "classes": [
            {"name": name, "kept": int((labels == label).sum()), "held_out": int((held_labels == label).sum())}
            for label, name in enumerate(base.classes)
        ],
        "network": network,
        "weights": plain(settings.training.weights) if settings.training.weights.file else None,
        "method": settings.training.method.name,
        "buffer": {
            "kept": len(labels),
            "pictures": len(np.unique(digests(rehearsed))),
            "capacity": settings.capacity(network["outputs"]),
            "bytes": len(labels) * settings.sample_bytes(network["outputs"]),
        },
        "state_bytes": states.size(base.number) if base.number else 0,
        "directory_bytes": directory_bytes(learner.directory),
        "history": base.history,
        "caution": forgotten(base.history[-1], settings.training.epochs, learner.directory) if base.history else None,
    }


def _unfinished(directory: LearnerDirectory, base: BaseState) -> tuple[bool, bool]:
    """Whether a learning session has begun and is not finished, and whether it could be resumed."""
    pending = directory.pending
    try:
        if pending.exists():
            return (pending.read_task().request.base == base.number,) * 2
    except SparclError:
        if pending.exists():  # otherwise it ended while it was looked at, and was never damaged
            raise
    return pending.begun(), False


def directory_bytes(directory: Path) -> int:
    """Of all files that stay where they are for as long as it takes."""
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += (Path(folder) / name).stat().st_size
    return total


def _network(learner: "Learner", base: BaseState) -> dict[str, Any]:
    """What is there, or before the first learning session what will be."""
    training = learner.settings.training
    graph = base.description.graph() if base.description else learner.planned_network()
    active = {name: len(tensor) for name, tensor in base.tensors.items() if name.startswith("index.")}
    options = training.sparsifier.options
    maskable = sum(
        layer.size
        for layer in sparse_layers(
            graph,
            training.sparsity,
            names=options["layers"],
            own_sparsity=options["layer_sparsity"],
            frozen=frozen_parameters(graph, training.rates),
        )
    )
    return {
        "model": training.model,
        "width": training.width,
        "image_size": learner.settings.pictures.size,
        "outputs": graph.classes,
        "parameters": graph.parameter_count(),
        "stored_parameters": sum(t.size for name, t in base.tensors.items() if name.startswith("parameters.")),
        "sparsity": 1 - sum(active.values()) / maskable if active else training.sparsity,
    }
