"""The loop of a run on a small scale: two-class tasks of random images, a convnet, a method, and somebody who looks."""

import numpy as np

from sparcl.data import Augmentation, Samples, Task
from sparcl.graph import build_model
from sparcl.learning.loop import Loop
from sparcl.learning.settings import resolve
from sparcl.network import Parameters
from sparcl.network.torch import TorchNetwork

CLASSES, SAMPLES, BATCH = 6, 48, 8


class Stage(Loop):
    """Learns up to three tasks; `on_step` and `on_epoch` are called after every step, task start and epoch."""

    def __init__(self, sparsifier: str, sparsity: float, method: str = "derpp", epochs: int = 4, **options) -> None:
        own = {"stage_epochs": 1, **options} if sparsifier == "sparcl" else options
        settings = resolve(
            {
                "method": {"name": method},
                "sparsifier": {"name": sparsifier, **own},
                "sparsity": sparsity,
                "seed": 1,
                "epochs": epochs,
                "batch_size": BATCH,
                "replay_batch_size": BATCH,
                "buffer_size": 20,
                "threads": 1,
            }
        )
        random = np.random.default_rng(0)
        images = random.integers(0, 256, (3 * SAMPLES, 2, 6, 6), np.uint8)
        self.tasks = []
        for index in range(3):
            positions = np.arange(index * SAMPLES, (index + 1) * SAMPLES)
            samples = Samples(images, positions, 2 * index + random.integers(0, 2, SAMPLES))
            self.tasks.append(Task(index, range(2 * index, 2 * index + 2), samples, samples, None))
        augmentation = Augmentation(1, True, (0.5, 0.5), (0.25, 0.25))
        super().__init__(settings, build_model("convnet", (2, 6, 6), CLASSES, 4), augmentation, self.tasks)
        self.records = []  # everything that the sparsifier said

    def run(self, tasks=3, on_step=lambda stage, batch, logits: None, on_epoch=lambda stage, task, epoch: None):
        self.on_step, self.on_epoch = on_step, on_epoch
        step = self.method.step

        def watched(batch):
            self.last = batch, step(batch)
            return self.last[1]

        self.method.step = watched
        self.begin_run()
        for task in self.tasks[:tasks]:
            self.learn(task)
            self.position.next_task()
        return self

    def begin_task(self, task):
        super().begin_task(task)
        self.on_epoch(self, task, -1)

    def train_step(self, task):
        super().train_step(task)
        self.on_step(self, *self.last)

    def end_epoch(self, task):
        epoch = self.position.epoch
        assert len(self.order) == self.sparsifier.samples_in_epoch(task, epoch)
        super().end_epoch(task)
        self.on_epoch(self, task, epoch)

    def record(self, event, **values):
        if event == "sparsity":
            self.records.append(values)

    def active(self):
        return {name: len(index) for name, index in self.network.parameters.index.items()}


def dense_copy(network):
    """In float64, with a zero wherever a weight is not active."""
    parameters = Parameters(network.graph, np.float64)
    for name in parameters.values:
        parameters.values[name][...] = network.parameters.values.dense(name)
    return TorchNetwork(network.graph, parameters)
