"""A small place to run sparsifiers in: two-class tasks of random images, a convnet, a method."""

import numpy as np

from sparcl.data import Augmentation, Samples, Task
from sparcl.generators import Generators
from sparcl.graph import build_model
from sparcl.methods import METHODS, Batch, MethodContext
from sparcl.network import build_network
from sparcl.sparsity import SPARSIFIERS, Moment, SparsifierContext

CLASSES, SAMPLES, BATCH = 6, 48, 8


class Stage:
    """Drives a sparsifier through tasks as the loop does, and looks at it after every hook."""

    def __init__(self, sparsifier: str, sparsity: float, method: str = "derpp", epochs: int = 4, **options) -> None:
        self.generators = Generators(1)
        graph = build_model("convnet", (2, 6, 6), CLASSES, 4)
        augmentation = Augmentation(1, True, (0.5, 0.5), (0.25, 0.25))
        self.network = build_network(graph, self.generators["initialisation"], threads=1)
        self.method = METHODS[method](MethodContext(self.network, augmentation, self.generators, 20, BATCH), {})
        self.epochs = epochs
        total_steps = 3 * epochs * (SAMPLES // BATCH)
        context = SparsifierContext(self.network, self.method, self.generators, sparsity, BATCH, epochs, total_steps)
        self.sparsifier = SPARSIFIERS[sparsifier](
            context, {"stage_epochs": 1, **options} if sparsifier == "sparcl" else options
        )
        self.method.watcher = self.sparsifier
        self.augmentation = augmentation
        self.total_steps = 0
        random = np.random.default_rng(0)
        images = random.integers(0, 256, (3 * SAMPLES, 2, 6, 6), np.uint8)
        self.tasks = []
        for index in range(3):
            positions = np.arange(index * SAMPLES, (index + 1) * SAMPLES)
            samples = Samples(images, positions, 2 * index + random.integers(0, 2, SAMPLES))
            self.tasks.append(Task(index, range(2 * index, 2 * index + 2), samples, samples, None))

    def run(self, tasks=3, on_step=lambda stage, batch, logits: None, on_epoch=lambda stage, task, epoch: None):
        self.sparsifier.begin_run()
        for task in self.tasks[:tasks]:
            self.method.begin_task(task)
            self.sparsifier.begin_task(Moment(task.index, 0, 0, self.total_steps, self.epochs), task)
            on_epoch(self, task, -1)
            for epoch in range(self.epochs):
                present = self.sparsifier.samples(task)
                assert len(present) == self.sparsifier.samples_in_epoch(task, epoch)
                order = present[self.generators["order"].permutation(len(present))]
                for step, start in enumerate(range(0, len(order), BATCH)):
                    chosen = order[start : start + BATCH]
                    moment = Moment(task.index, epoch, step, self.total_steps, self.epochs)
                    self.sparsifier.begin_step(moment)
                    images = self.augmentation.train(
                        task.train.images, task.train.positions[chosen], self.generators["augmentation"]
                    )
                    batch = Batch(images, task.train.labels[chosen], task.index, task.classes, task.train, chosen)
                    self.method.replayed_images = []
                    logits = self.method.step(batch)
                    self.sparsifier.end_step(moment, batch, logits)
                    self.total_steps += 1
                    on_step(self, batch, logits)
                self.sparsifier.end_epoch(Moment(task.index, epoch, 0, self.total_steps, self.epochs), task)
                on_epoch(self, task, epoch)
        return self

    def active(self):
        return {name: len(index) for name, index in self.network.parameters.index.items()}
