"""Datasets as streams of tasks: `load_stream("cifar10")`.

What is named here is loaded when somebody asks for it: predicting decodes pictures and needs no datasets.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparcl.data.augmentation import Augmentation
    from sparcl.data.load import DATASETS, load_stream
    from sparcl.data.source import Progress, Source
    from sparcl.data.stream import Samples, Stream, Task

_MODULES = {
    "Augmentation": "augmentation",
    "DATASETS": "load",
    "load_stream": "load",
    "Progress": "source",
    "Source": "source",
    "Samples": "stream",
    "Stream": "stream",
    "Task": "stream",
}

__all__ = ["DATASETS", "Augmentation", "Progress", "Samples", "Source", "Stream", "Task", "load_stream"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'sparcl.data' has no attribute {name!r}")
    return getattr(import_module(f"sparcl.data.{_MODULES[name]}"), name)
