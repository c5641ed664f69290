"""Judging a network on held-out samples, task by task."""

import contextlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from sparcl.data import Samples, Stream, Task
from sparcl.learning.settings import EvaluationSettings
from sparcl.metrics import class_il_and_task_il
from sparcl.network import Logits, Network


class Evaluator:
    """`poll` is called between batches; it may raise to break an evaluation off, which leaves no trace."""

    def __init__(
        self, network: Network, stream: Stream, settings: EvaluationSettings, poll: Callable[[], None]
    ) -> None:
        self._network = network
        self._stream = stream
        self._settings = settings
        self._poll = poll

    def accuracies(self, tasks: Sequence[Task], learned: int) -> tuple[list[float], list[float]]:
        """Class-IL and Task-IL accuracy of each task, once `learned` tasks have been learned.

        The candidates of Class-IL are the classes seen so far; for a task that is still to come, the classes up to and
        including its own, or it could never be right.
        """
        pairs = []
        for task in tasks:
            newest = self._stream.tasks[max(learned - 1, task.index)]
            samples = task.test if self._settings.split == "test" else task.validation
            assert samples is not None
            pairs.append(class_il_and_task_il(self._logits(samples), samples.labels, task.classes, newest.classes.stop))
        return [class_il for class_il, _ in pairs], [task_il for _, task_il in pairs]

    def _logits(self, samples: Samples) -> Logits:
        parts = []
        for start in range(0, len(samples), self._settings.batch_size):
            self._poll()
            positions = samples.positions[start : start + self._settings.batch_size]
            parts.append(self._network.predict(self._stream.augmentation.test(samples.images, positions)))
        return np.concatenate(parts)

    @contextlib.contextmanager
    def recalibrated(self, images: NDArray[np.uint8], batch_size: int) -> Iterator[None]:
        """Within this context, batch statistics are those of `images`; afterwards they are as before.

        Every k-th image forms a batch, so that each batch is a cross-section of a buffer that is filled in task order.
        """
        statistics = self._network.parameters.statistics.flat
        before = statistics.copy()
        batches = -(-len(images) // batch_size)
        try:
            for number in range(batches):
                self._poll()
                batch = self._stream.augmentation.test(images, np.arange(number, len(images), batches))
                # A momentum of 1/n makes the running statistics the plain mean over the n batches so far.
                self._network.forward(batch, train=True, momentum=1 / (number + 1))
            yield
        finally:
            statistics[...] = before
