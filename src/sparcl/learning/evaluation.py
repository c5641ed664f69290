"""Judging a network on held-out samples, task by task."""

import contextlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from sparcl.data import Samples, Stream, Task
from sparcl.learning.settings import EvaluationSettings
from sparcl.methods import Method
from sparcl.metrics import AccuracyRow, class_il_and_task_il
from sparcl.network import Logits

CLASS_INCREMENTAL = ("class_il", "task_il")
DOMAIN_INCREMENTAL = ("domain_il",)

Accuracies = dict[str, AccuracyRow]  # by kind


def kinds(stream: Stream) -> tuple[str, ...]:
    """What is measured. Tasks that share their classes have one accuracy: there is no choice of classes to make."""
    return DOMAIN_INCREMENTAL if stream.domains else CLASS_INCREMENTAL


class Evaluator:
    """`poll` is called between batches; it may raise to break an evaluation off, which leaves no trace."""

    def __init__(self, method: Method, stream: Stream, settings: EvaluationSettings, poll: Callable[[], None]) -> None:
        self._method = method
        self._network = method.network
        self._stream = stream
        self._settings = settings
        self._poll = poll

    def accuracies(self, tasks: Sequence[Task], learned: int, confusion: NDArray[np.int64] | None = None) -> Accuracies:
        """The accuracies of each task, once `learned` tasks have been learned.

        The candidates of Class-IL are the classes seen so far; for a task that is still to come, the classes up to and
        including its own, or it could never be right. A method that must be told the task has no Class-IL accuracy.

        `confusion` [true class, predicted class] is added to: what the tasks learned so far were taken for, in Class-IL
        where there is such a thing, else among the classes of their task.
        """
        self._method.begin_evaluation(self._stream.tasks[learned - 1] if learned else None)
        class_il: AccuracyRow = []
        task_il: AccuracyRow = []
        for task in tasks:
            newest = self._stream.tasks[max(learned - 1, task.index)]
            samples = task.test if self._settings.split == "test" else task.validation
            assert samples is not None
            logits = self._logits(samples, task)
            both = class_il_and_task_il(logits, samples.labels, task.classes, newest.classes.stop)
            class_il.append(both[0] if "class-il" in self._method.scenarios else None)
            task_il.append(both[1])
            if confusion is not None and task.index < learned:
                candidates = range(newest.classes.stop) if self.confusion_kind == "class_il" else task.classes
                predicted = logits[:, candidates.start : candidates.stop].argmax(axis=1) + candidates.start
                np.add.at(confusion, (samples.labels, predicted), 1)
        return {"domain_il": task_il} if self._stream.domains else {"class_il": class_il, "task_il": task_il}

    @property
    def confusion_kind(self) -> str:
        """The accuracy that the counts of a confusion belong to."""
        if self._stream.domains:
            return "domain_il"
        return "class_il" if "class-il" in self._method.scenarios else "task_il"

    def _logits(self, samples: Samples, task: Task) -> Logits:
        parts = []
        for start in range(0, len(samples), self._settings.batch_size):
            self._poll()
            positions = samples.positions[start : start + self._settings.batch_size]
            images = self._stream.augmentation.test(samples.images, positions)
            parts.append(self._method.predict(images, task))
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
