"""A tiny context for methods: random images, a small network."""

import numpy as np
import pytest

from sparcl.data import Augmentation, Samples, Task
from sparcl.generators import Generators
from sparcl.graph import build_model
from sparcl.methods import METHODS, Batch, MethodContext
from sparcl.network import build_network

CLASSES, BATCH = 5, 6


class Bench:
    """A method on a network, with batches to feed it."""

    def __init__(self, name: str, buffer_size: int = 20, backend="torch", tasks=2, width=4, **hyperparameters) -> None:
        self.generators = Generators(3)
        graph = build_model("convnet", (2, 6, 6), CLASSES, width)
        # No shift and no flip: what is replayed is what was stored, so a reference can know it.
        augmentation = Augmentation(0, False, (0.5, 0.5), (0.25, 0.25))
        network = build_network(graph, self.generators["initialisation"], threads=1, backend=backend)
        context = MethodContext(network, augmentation, self.generators, buffer_size, BATCH, tasks)
        self.method = METHODS[name](context, hyperparameters)
        random = np.random.default_rng(0)
        images = random.integers(0, 256, (200, 2, 6, 6), np.uint8)
        self.samples = Samples(images, np.arange(200), random.integers(0, CLASSES, 200))
        self.augmentation = augmentation

    def task(self, index: int) -> Task:
        """Task 0 has classes 0 and 1, task 1 has 2 and 3, a third one the rest."""
        classes = range(2 * index, min(2 * index + 2, CLASSES))
        chosen = np.isin(self.samples.labels, classes)
        samples = self.samples.select(chosen)
        return Task(index, classes, samples, samples, None)

    def batch_of(self, task: Task, number: int, progress: float = 0.5) -> Batch:
        chosen = np.arange(number * BATCH, (number + 1) * BATCH) % len(task.train)
        images = self.augmentation.test(task.train.images, task.train.positions[chosen])
        return Batch(images, task.train.labels[chosen], task.index, task.classes, task.train, chosen, progress)

    def learn(self, task: Task, steps: int = 8) -> None:
        """A whole task, as the loop does it."""
        self.method.begin_task(task)
        for number in range(steps):
            self.method.step(self.batch_of(task, number, number / steps))
        self.method.end_task(task)

    def batch(self, number: int, task: int = 0) -> Batch:
        chosen = np.arange(number * BATCH, (number + 1) * BATCH)
        images = self.augmentation.test(self.samples.images, self.samples.positions[chosen])
        return Batch(images, self.samples.labels[chosen], task, range(CLASSES), self.samples, chosen)


@pytest.fixture
def bench():
    return Bench
