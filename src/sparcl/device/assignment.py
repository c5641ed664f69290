"""What a learning session has to do: from the settings, the state it begins from, and the pictures that were given."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from sparcl.data import Augmentation, Samples, Task
from sparcl.data.store import ChannelStatistics
from sparcl.device.base_state import BaseState
from sparcl.device.model import Description
from sparcl.device.pending import LearnRequest, Pending
from sparcl.device.settings import LearnerSettings
from sparcl.errors import SparclError
from sparcl.learning.settings import Settings

Scale = tuple[tuple[float, ...], tuple[float, ...]]


def check_that_it_fits(settings: LearnerSettings, base: BaseState, request: LearnRequest, directory: Path) -> None:
    training, size, was = settings.training, settings.pictures.size, base.description
    same = was is None or (was.model, was.width, was.size) == (training.model, training.width, size)
    known = request.classes[: len(request.classes) - request.new]
    if not same or request.base != base.number or request.size != size or known != base.classes:
        raise SparclError(
            f"What is stored in {directory} does not fit together: its settings, its state and the session that was "
            "interrupted contradict each other."
        )


def task_of(base: BaseState, pending: Pending) -> Task:
    """The pictures as a task. Its classes reach from the lowest label it has to the newest class."""
    chosen = np.flatnonzero(~pending.held_out)
    labels = pending.labels[chosen]
    train = Samples(pending.images, chosen, labels)
    classes = range(int(labels.min()), len(pending.request.classes))
    return Task(base.position.task, classes, train, train.select(slice(0)), None)


def description_of(settings: LearnerSettings, base: BaseState, request: LearnRequest, task: Task) -> Description:
    """The network that knows all classes, old and new."""
    training = settings.training
    outputs = max(settings.classes, len(request.classes), base.description.outputs if base.description else 0)
    mean, std = _scale(settings, base, task)
    return Description(training.model, training.width, settings.pictures.size, outputs, request.classes, mean, std)


def training_of(settings: LearnerSettings, request: LearnRequest, outputs: int) -> Settings:
    """On the engine: a learner needs no torch, and its states are the same with and without it."""
    return replace(
        settings.training,
        buffer_size=settings.capacity(outputs),
        epochs=request.epochs or settings.training.epochs,
        backend="native",
    )


def augmentation_of(settings: LearnerSettings, description: Description) -> Augmentation:
    pictures = settings.pictures
    padding = pictures.size // 8 if pictures.padding is None else pictures.padding
    return Augmentation(padding, pictures.flip, description.mean, description.std)


def _scale(settings: LearnerSettings, base: BaseState, task: Task) -> Scale:
    """Mean and deviation: as set, as learned first, or of these pictures, which are the first."""
    pictures = settings.pictures
    if pictures.mean is not None and pictures.std is not None:
        return pictures.mean, pictures.std
    if base.description is not None:
        return base.description.mean, base.description.std
    statistics = ChannelStatistics(3)
    for start in range(0, len(task.train), 256):
        statistics.add(task.train.originals(slice(start, start + 256)))
    return statistics.result()
