"""Incremental Classifier and Representation Learning (Rebuffi et al., 2017)."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparcl.data import Samples, Task
from sparcl.errors import SparclError
from sparcl.methods.batch import Batch
from sparcl.methods.losses import sigmoid, sigmoid_cross_entropy
from sparcl.methods.method import MethodContext
from sparcl.methods.old_network import WithOldNetwork
from sparcl.methods.rehearsal import TaskwiseRehearsal
from sparcl.network import Features, Images, Logits
from sparcl.options import NotNegative, Positive


class ICarl(TaskwiseRehearsal, WithOldNetwork, name="icarl"):
    """Sigmoid outputs: past classes copy the old network, new classes learn their labels. Exemplars are chosen by
    herding, and a sample belongs to the class whose exemplars have the nearest mean of features.

    Deviations: a batch of exemplars is replayed with each batch, where the paper mixes them into the task's data. For
    an evaluation in the middle of a task the first images of its classes stand in for exemplars not yet chosen.
    """

    learning_rate: Positive = 0.1
    weight_decay: NotNegative = 1e-5
    single_head: ClassVar[bool] = False  # type: ignore[misc]  # no choice: every class has its own sigmoid

    reference = "Rebuffi et al., 2017"
    scenarios = ("class-il", "task-il")
    closing_passes: ClassVar[int] = 1
    tuned = {
        "cifar10": {200: {"learning_rate": 0.1}, 500: {"learning_rate": 0.1}},
        "tiny_imagenet": {200: {"learning_rate": 0.03}, 500: {"learning_rate": 0.03}},
    }

    def __init__(self, context: MethodContext, hyperparameters: Mapping[str, Any]) -> None:
        super().__init__(context, hyperparameters)
        classes = context.network.graph.classes
        if context.buffer_size < classes:
            raise SparclError(
                f"icarl classifies by exemplars: {context.buffer_size} are too few for {classes} classes. "
                f"Set buffer_size to at least {classes}."
            )
        self.means: dict[int, Features] = {}  # of each class, for the evaluation that goes on

    def step(self, batch: Batch) -> Logits:
        images, labels = batch.images, batch.labels
        if self.buffer:
            replayed = self.replay()
            images = np.concatenate([images, replayed.images])
            labels = np.concatenate([labels, replayed.labels])
        loss = sigmoid_cross_entropy(self.targets(images, labels, batch.classes))
        logits = self.descend(images, loss, replayed=len(images) - len(batch))
        self.update()
        return logits[: len(batch)]

    def targets(self, images: Images, labels: NDArray[np.int64], new: range) -> Logits:
        """For every class seen so far: what the old network says, or for new classes whether it is the label."""
        targets = np.zeros((len(labels), new.stop), np.float32)
        targets[np.arange(len(labels)), labels] = 1
        if self.old is not None:
            targets[:, : new.start] = sigmoid(self.old_logits(images)[:, : new.start])
        return targets

    def end_task(self, task: Task) -> None:
        share = self.buffer.capacity // task.classes.stop
        self.buffer.keep_first(share, self.buffer.labels)
        self.watcher.extra_pass(len(task.train), self.network, backward=False)
        for label in task.classes:
            of_class = task.train.select(task.train.labels == label)
            chosen = herd(unit(self.compute(self.network.features, of_class)), share)
            self.buffer.append(of_class.select(chosen), task.index)

    def begin_evaluation(self, newest: Task | None) -> None:
        held = slice(len(self.buffer))
        exemplars = Samples(self.buffer.images, np.arange(len(self.buffer)), self.buffer.labels[held])
        self.means = self.class_means(exemplars)
        if newest is not None and newest.classes.stop - 1 not in self.means:
            share = self.buffer.capacity // newest.classes.stop
            first = [np.flatnonzero(newest.train.labels == label)[:share] for label in newest.classes]
            self.means |= self.class_means(newest.train.select(np.concatenate(first)))

    def class_means(self, samples: Samples) -> dict[int, Features]:
        if not len(samples):
            return {}
        features = unit(self.compute(self.network.features, samples))
        return {int(c): unit(features[samples.labels == c].mean(axis=0)) for c in np.unique(samples.labels)}

    def predict(self, images: Images, task: Task) -> Logits:
        """The negative distance to each class's mean. A task that is still to come has none: the logits serve."""
        if task.classes.start not in self.means:
            return self.network.predict(images)
        scores = np.full((len(images), self.network.graph.classes), -np.inf, np.float32)
        features = unit(self.network.features(images))
        for label, mean in self.means.items():
            scores[:, label] = -np.linalg.norm(features - mean, axis=1)
        return scores


def unit(features: Features) -> Features:
    """Vectors of length one; a vector of zeros stays."""
    lengths = np.linalg.norm(features, axis=-1, keepdims=True)
    return np.asarray(features / np.where(lengths > 0, lengths, 1))


def herd(features: Features, count: int) -> NDArray[np.int64]:
    """One after another, the sample that brings the mean of those chosen nearest to the mean of all."""
    mean, total = features.mean(axis=0), np.zeros_like(features[0])
    left = np.ones(len(features), bool)
    chosen: list[int] = []
    while len(chosen) < min(count, len(features)):
        distances = np.linalg.norm(mean - (total + features) / (len(chosen) + 1), axis=1)
        chosen.append(int(np.where(left, distances, np.inf).argmin()))
        total += features[chosen[-1]]
        left[chosen[-1]] = False
    return np.array(chosen, np.int64)
