"""A tiny workplace for methods: random images, a small network."""

import numpy as np
import pytest

from sparcl.data import Augmentation, Samples
from sparcl.generators import Generators
from sparcl.graph import build_model
from sparcl.methods import METHODS, Batch, Workplace
from sparcl.network import build_network

CLASSES, BATCH = 5, 6


class Bench:
    """A method on a network, with batches to feed it."""

    def __init__(self, name: str, buffer_size: int = 20, **hyperparameters: float) -> None:
        self.generators = Generators(3)
        graph = build_model("convnet", (2, 6, 6), CLASSES, 4)
        # No shift and no flip: what is replayed is what was stored, so a reference can know it.
        augmentation = Augmentation(0, False, (0.5, 0.5), (0.25, 0.25))
        network = build_network(graph, self.generators["initialisation"], threads=1)
        workplace = Workplace(network, augmentation, self.generators, buffer_size, BATCH)
        self.method = METHODS[name](workplace, hyperparameters)
        random = np.random.default_rng(0)
        images = random.integers(0, 256, (200, 2, 6, 6), np.uint8)
        self.samples = Samples(images, np.arange(200), random.integers(0, CLASSES, 200))
        self.augmentation = augmentation

    def batch(self, number: int, task: int = 0) -> Batch:
        chosen = np.arange(number * BATCH, (number + 1) * BATCH)
        images = self.augmentation.test(self.samples.images, self.samples.positions[chosen])
        return Batch(images, self.samples.labels[chosen], task, range(CLASSES), self.samples, chosen)


@pytest.fixture
def bench():
    return Bench
