"""Datasets as streams of tasks: `load_stream("cifar10")`."""

from sparcl.data.augmentation import Augmentation
from sparcl.data.load import DATASETS, load_stream
from sparcl.data.source import Progress, Source
from sparcl.data.stream import Samples, Stream, Task

__all__ = ["DATASETS", "Augmentation", "Progress", "Samples", "Source", "Stream", "Task", "load_stream"]
