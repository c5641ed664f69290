"""Averaged Gradient Episodic Memory (Chaudhry et al., 2019)."""

import numpy as np
from numpy.typing import NDArray

from sparcl.data import Task
from sparcl.methods.batch import Batch
from sparcl.methods.losses import cross_entropy
from sparcl.methods.rehearsal import TaskwiseRehearsal
from sparcl.network import Logits


class AveragedGem(TaskwiseRehearsal, name="agem"):
    """The gradient of the batch, without the part that would raise the loss on a batch of past samples.

    Deviation: the buffer gets its share of random samples of a task when the task ends, not while it is learned.
    """

    reference = "Chaudhry et al., 2019"
    tuned = {
        "cifar10": {200: {"learning_rate": 0.03}, 500: {"learning_rate": 0.03}},
        "tiny_imagenet": {200: {"learning_rate": 0.01}, 500: {"learning_rate": 0.01}},
    }

    def step(self, batch: Batch) -> Logits:
        logits = self.descend(batch.images, self.classification_loss(batch))
        if self.buffer:
            gradients = self.network.parameters.gradients.flat
            own = gradients.copy()
            replayed = self.replay()
            self.descend(replayed.images, cross_entropy(replayed.labels), replayed=True)
            reference = gradients - own  # gradients add up
            gradients[...] = projected(own, reference)
        self.update()
        return logits

    def end_task(self, task: Task) -> None:
        share = self.buffer.capacity // self.context.tasks
        self.buffer.append(self.random_samples(task, share), task.index)


def projected(gradient: NDArray[np.floating], reference: NDArray[np.floating]) -> NDArray[np.floating]:
    """The nearest gradient that does not point against the reference."""
    along = float(gradient @ reference)
    if along >= 0:
        return gradient
    return np.asarray(gradient - np.asarray(along / float(reference @ reference), gradient.dtype) * reference)
