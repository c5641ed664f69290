"""Everything there is to know about a learner, as plain values."""

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparcl.device.base import Base
from sparcl.device.cautions import forgotten
from sparcl.device.held_out import digests
from sparcl.errors import SparclError
from sparcl.files import is_locked
from sparcl.sparsity.layers import sparse_layers

if TYPE_CHECKING:
    from sparcl.device.learner import Learner


def describe(learner: "Learner") -> dict[str, Any]:
    states, settings = learner.states, learner.settings
    base = Base(states, states.newest())
    rehearsed, labels = base.rehearsed
    _, held_labels = base.held_out
    network = _network(learner, base)
    pending = _is_pending(learner, base)
    going_on = is_locked(learner.directory)
    return {
        "directory": str(learner.directory),
        "learns": base.number,
        "can_undo": base.number == 1 or base.number - 1 in states.numbers(),
        "learning": pending and going_on,
        "interrupted": pending and not going_on,
        "classes": [
            {"name": name, "kept": int((labels == label).sum()), "held_out": int((held_labels == label).sum())}
            for label, name in enumerate(base.classes)
        ],
        "network": network,
        "method": settings.training.method.name,
        "buffer": {
            "kept": len(labels),
            "pictures": len(np.unique(digests(rehearsed))),
            "capacity": settings.capacity(network["outputs"]),
            "bytes": len(labels) * settings.sample_bytes(network["outputs"]),
        },
        "state_bytes": states.path(base.number).stat().st_size if base.number else 0,
        "directory_bytes": _size(learner.directory),
        "history": base.history,
        "caution": forgotten(base.history[-1], settings.training.epochs, learner.directory) if base.history else None,
    }


def _is_pending(learner: "Learner", base: Base) -> bool:
    """A learn may finish while this looks: what is gone then was never damaged."""
    try:
        return learner.pending.exists() and learner.pending.order().base == base.number
    except SparclError:
        if not learner.pending.exists():
            return False
        raise


def _size(directory: Path) -> int:
    """Of all files that stay where they are for as long as it takes."""
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += (Path(folder) / name).stat().st_size
    return total


def _network(learner: "Learner", base: Base) -> dict[str, Any]:
    """What is there, or before the first learn what will be."""
    training = learner.settings.training
    graph = base.description.graph() if base.description else learner.planned_network()
    active = {name: len(tensor) for name, tensor in base.tensors.items() if name.startswith("index.")}
    options = training.sparsifier.options
    maskable = sum(
        layer.size
        for layer in sparse_layers(
            graph, training.sparsity, names=options["layers"], own_sparsity=options["layer_sparsity"]
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
