"""How each data set is learned: the defaults that a preset starts from.

`full` is the paper's own protocol where the paper has one. The others are cut down for two CPU cores, and say how.
"""

from collections.abc import Mapping
from typing import Any

DEFAULT_PROTOCOL = "full"

# After short training a single snapshot swings by several points, so short protocols average many.
_SMOOTHED = {"snapshots": 12, "snapshot_steps": 48, "bn_recalibration": True}

PROTOCOLS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "digits": {
        "full": {
            "model": "convnet",
            "width": 32,
            "epochs": 10,
            "buffer_size": 100,
            "batch_size": 16,
            "sparsifier": {"stage_epochs": 1},
        },
    },
    "cifar10": {
        "full": {"model": "resnet18", "width": 64, "epochs": 50},
        # Minutes instead of hours: a narrow network, a tenth of the epochs, half of the images.
        "reduced": {
            "width": 20,
            "epochs": 5,
            "data": {"images_per_task": 5000},
            "evaluation": _SMOOTHED,
            "sparsifier": {"stage_epochs": 1},
        },
        # The paper's network and its larger buffer; a tenth of the epochs, half of the images.
        "short": {
            "width": 64,
            "epochs": 5,
            "buffer_size": 500,
            "data": {"images_per_task": 5000},
            "evaluation": _SMOOTHED,
            "sparsifier": {"stage_epochs": 1},
        },
        # For `make check-accuracy`: tells a broken learner from a good one.
        "check": {
            "width": 16,
            "epochs": 4,
            "data": {"tasks": 3, "images_per_task": 2500},
            "evaluation": _SMOOTHED,
            "sparsifier": {"stage_epochs": 1},
        },
    },
    "tiny_imagenet": {
        "full": {"model": "resnet18", "width": 64, "epochs": 100},
        "reduced": {"width": 20, "epochs": 5, "evaluation": _SMOOTHED, "sparsifier": {"stage_epochs": 1}},
    },
    "folder": {
        "full": {"model": "resnet18", "width": 32, "epochs": 20},
    },
}
