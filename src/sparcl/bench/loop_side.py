"""The loop of runs as a side of a measurement: its steps are those that a run takes, with all of its hooks."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from sparcl.bench.timing import Step
from sparcl.bench.workload import CHANNELS, Workload
from sparcl.data import Augmentation, Samples, Task
from sparcl.learning.loop import Loop
from sparcl.learning.settings import resolve


def random_task(work: Workload, images: int) -> Task:
    """All classes, in random images."""
    pixels, labels = work.samples(images)
    samples = Samples(pixels, np.arange(images), labels)
    return Task(0, range(work.classes), samples, samples, None)


def loop_of(work: Workload, task: Task, changes: Mapping[str, Any]) -> Loop:
    """A loop over a single task; `changes` are settings of a run, the others are those of CIFAR-10."""
    values = {
        "dataset": "cifar10",
        "model": work.model,
        "width": work.width,
        "batch_size": work.batch,
        "replay_batch_size": work.batch,
        **changes,
    }
    augmentation = Augmentation(work.image_size // 8, True, (0.5,) * CHANNELS, (0.25,) * CHANNELS)
    return Loop(resolve(values), work.graph(), augmentation, (task,))


def step_of(loop: Loop, task: Task) -> Step:
    """Begins the run and the task. Each call is one step; the first epoch never ends, because what is done between
    epochs is no part of a step."""
    loop.begin_run()
    loop.begin_task(task)

    def step() -> None:
        if loop.epoch_is_over():
            loop.position.step = 0
        loop.train_step(task)

    return step
