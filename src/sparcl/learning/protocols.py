"""How each data set is learned: the defaults that a preset starts from.

`full` is the paper's own protocol where the paper has one. `online` presents every sample once. The others are cut down
for two CPU cores, and say how.
"""

from collections.abc import Mapping
from typing import Any

DEFAULT_PROTOCOL = "full"

# After short training a single snapshot swings by several points, so short protocols average many.
_SMOOTHED = {"snapshots": 12, "snapshot_steps": 48, "bn_recalibration": True}

_DIGITS = {
    "model": "convnet",
    "width": 32,
    "epochs": 10,
    "buffer_size": 100,
    "batch_size": 16,
    "sparsifier": {"stage_epochs": 1},
}
# A task of a single stage has no time after which it could give weights back: none join for it.
_ONLINE = {"epochs": 1, "sparsifier": {"stage_epochs": 1, "p_inter": 0.0}}
_DOMAINS = {"full": {**_DIGITS, "epochs": 5}, "online": {**_DIGITS, **_ONLINE}}

PROTOCOLS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "digits": {
        "full": _DIGITS,
        "online": {**_DIGITS, **_ONLINE},
        # For `sparcl paper --protocol smoke`: every part of a table runs, in seconds, without PyTorch too.
        "smoke": {**_DIGITS, "width": 16, "backend": "native"},
    },
    "permuted-digits": _DOMAINS,
    "rotated-digits": _DOMAINS,
    "cifar10": {
        "full": {"model": "resnet18", "width": 64, "epochs": 50},
        # Minutes instead of hours: a narrow network, a tenth of the epochs, half of the images.
        "reduced": {
            "width": 20,
            "epochs": 5,
            "data": {"images_per_task": 5000},
            "evaluation": _SMOOTHED,
            "sparsifier": {"stage_epochs": 1},
            "method": {"fisher_samples": 1000},  # EWC's, which otherwise take longer than its training
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
        # The paper's ten stages and all of its images, at half its width and a fifth of its epochs: hours.
        "medium": {
            "width": 32,
            "epochs": 10,
            "buffer_size": 500,
            "evaluation": _SMOOTHED,
            "sparsifier": {"stage_epochs": 1},
        },
        # All images, once, through the narrow network.
        "online": {"width": 20, "evaluation": _SMOOTHED, **_ONLINE},
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
        # Half an hour instead of days: a narrow network, half of the tasks, a tenth of their images, few epochs.
        "reduced": {
            "width": 16,
            "epochs": 5,
            "data": {"tasks": 5, "images_per_task": 1000},
            "evaluation": {**_SMOOTHED, "snapshots": 4},
            "sparsifier": {"stage_epochs": 1},
        },
        "online": {"width": 20, "evaluation": _SMOOTHED, **_ONLINE},
    },
    "folder": {
        "full": {"model": "resnet18", "width": 32, "epochs": 20},
        "online": {"model": "resnet18", "width": 32, **_ONLINE},
    },
}
