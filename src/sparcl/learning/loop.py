"""The loop that learns a task: some epochs of batches, after each of which somebody may look, save or stop.

    begin_run                                            once, in a new network
    begin_task
    for each epoch:
        for each batch:  between_steps, train_step
        end_epoch
    end_task

`learn` goes through a task; a benchmark that times single parts of it calls these methods in the same order. The
position in these loops is data (`Position`), not a place in the program, so learning resumes anywhere between two
steps and goes on bit for bit as if it had never stopped. `Trainer` learns a whole stream of tasks with it, for an
experiment; `device.session` learns one task after another, as they come.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparcl.data import Augmentation, Task
from sparcl.errors import SparclError
from sparcl.generators import Generators
from sparcl.graph import Graph
from sparcl.learning.costs import CountingWatcher
from sparcl.learning.epoch_steps import EpochSteps
from sparcl.learning.position import PhaseClock, Position
from sparcl.learning.settings import Settings
from sparcl.methods import METHODS, Batch, MethodContext, TaskwiseRehearsal
from sparcl.metrics.schedule import batches
from sparcl.network import build_network, choose_backend
from sparcl.sparsity import SPARSIFIERS, Moment, SparsifierContext


class Stopped(Exception):  # noqa: N818 (not an error: learning was asked to stop, and its state is saved)
    """Learning was asked to stop, perhaps by a signal; its checkpoint is written."""

    def __init__(self, signal: int | None = None) -> None:
        super().__init__()
        self.signal = signal


class DivergedError(SparclError):
    """The network's numbers have run away; going on, or doing the same again, ends the same way."""


def check_batch_sizes(settings: Settings, graph: Graph, replayed: int) -> None:
    """Batch statistics need more than one number a channel, which a single sample with 1x1 maps does not give.

    `replayed`: samples that the fullest replay batch can have.
    """
    smallest = min(settings.batch_size, settings.replay_batch_size, replayed or settings.batch_size)
    tiny = [node.name for node in graph if node.op.role == "norm" and node.shape[1:] == (1, 1)]
    if smallest == 1 and tiny:
        raise SparclError(
            f"Batches of one sample cannot be normalised at {tiny[0]}, whose maps have a single pixel. "
            "Raise batch_size, replay_batch_size and buffer_size to at least 2."
        )


class Loop:
    """`tasks` are those known beforehand: some methods and sparsifiers plan with them."""

    def __init__(self, settings: Settings, graph: Graph, augmentation: Augmentation, tasks: Sequence[Task]) -> None:
        self.augmentation = augmentation
        self.generators = Generators(settings.seed)
        backend, self.backend_reason = choose_backend(settings.backend, graph)
        # What is learned is stored with the backend it really uses: it must resume on the same one.
        self.settings = settings = replace(settings, backend=backend)
        self.epochs = settings.epochs  # of the task at hand; a limited time may make them fewer
        self.network = build_network(
            graph, self.generators["initialisation"], settings.threads, backend, settings.rates
        )
        method_context = MethodContext(
            self.network,
            augmentation,
            self.generators,
            settings.buffer_size,
            settings.replay_batch_size,
            len(tasks),
            self.poll,
            settings.optimizer,
        )
        method = METHODS[settings.method.name]
        self.method = method(method_context, settings.method.options)
        samples = [len(task.train) for task in tasks]
        context = SparsifierContext(
            self.network,
            self.method,
            self.generators,
            settings.sparsity,
            settings.batch_size,
            settings.epochs,
            settings.epochs * sum(map(self.batches, [sum(samples)] if method.learns_all_tasks_at_once else samples)),
            lambda samples: self.watcher.count_importance(samples),
        )
        self.sparsifier = SPARSIFIERS[settings.sparsifier.name](context, settings.sparsifier.options)
        self.watcher = CountingWatcher(self.sparsifier, self.network)
        self.method.watcher = self.watcher
        replayed = settings.buffer_size
        if isinstance(self.method, TaskwiseRehearsal):
            replayed //= len(tasks)  # what the second task finds in the buffer
        check_batch_sizes(settings, graph, replayed)
        self.position = Position()
        self.order: NDArray[np.int64] = np.empty(0, np.int64)
        self.clock = PhaseClock()
        self._stop_requested = False
        self._planned: tuple[tuple[int, int], EpochSteps] | None = None

    def request_stop(self) -> None:
        """Stop at the next safe moment, with a checkpoint. May be called from a signal handler."""
        self._stop_requested = True

    def poll(self) -> None:
        if self._stop_requested:
            raise Stopped

    # For whoever uses the loop

    def between_steps(self, task: Task) -> None:
        """Called before every step and at the task's end: the moment to look, to save, or to stop."""

    def stepped(self) -> None:
        """A step is done."""

    def record(self, event: str, **values: Any) -> None:
        """Something happened that may be written down."""

    # One task

    def learn(self, task: Task) -> None:
        position = self.position
        if not position.begun:
            with self.clock.measure("train"):
                self.begin_task(task)
        while True:
            self.between_steps(task)
            if self.epoch_is_over():
                with self.clock.measure("train"):
                    self.end_epoch(task)
            if position.epoch == self.epochs:
                break
            with self.clock.measure("train"):
                self.train_step(task)
        if not position.ended:
            with self.clock.measure("train"):
                self.end_task(task)

    def begin_run(self) -> None:
        """Before the first task of a new network; what is resumed has begun already."""
        self.sparsifier.begin_run()

    def begin_task(self, task: Task) -> None:
        self.method.begin_task(task)
        self.sparsifier.begin_task(self._moment(), task)
        self._log_sparsity()
        self.position.begun = True

    def end_task(self, task: Task) -> None:
        self.method.end_task(task)
        self.network.parameters.slots = {}  # the next task begins with an optimizer that remembers nothing
        self.position.ended = True

    def epoch_is_over(self) -> bool:
        return bool(self.position.step) and self.position.step == self.batches(len(self.order))

    def train_step(self, task: Task) -> None:
        position = self.position
        if position.step == 0:
            present = self.sparsifier.samples(task)
            every = self.generators["order"].permutation(len(task.train))  # drawn alike, whatever was removed
            self.order = every[np.isin(every, present)]
        moment = self._moment()
        self.sparsifier.begin_step(moment)
        start = position.step * self.settings.batch_size
        last = position.step + 1 == self.batches(len(self.order)) and not self.settings.drop_last
        chosen = self.order[start:] if last else self.order[start : start + self.settings.batch_size]
        images = self.augmentation.train(
            task.train.images, task.train.positions[chosen], self.generators["augmentation"]
        )
        progress = self.steps_done(task) / self.steps_of(task)
        batch = Batch(images, task.train.labels[chosen], task.index, task.classes, task.train, chosen, progress)
        self.method.loss = 0.0
        self.method.optimizer.factor = self.settings.schedule.factor(*self.schedule_place(task))
        logits = self.method.step(batch)
        self.sparsifier.end_step(moment, batch, logits)
        seen = logits[:, : task.classes.stop]
        position.correct += int((seen.argmax(axis=1) == batch.labels).sum())
        position.presented += len(batch)
        position.loss_sum += self.method.loss
        position.step += 1
        position.total_steps += 1
        self._log_sparsity()  # now: a checkpoint does not hold what is still to be written down
        self.stepped()

    def check_finite(self) -> None:
        """What has run away must be neither kept nor gone on with."""
        position = self.position
        # Losses are those before each update: what the last one did shows in the weights.
        if np.isfinite(position.loss_sum) and np.isfinite(self.network.parameters.values.flat).all():
            return
        what = "weights are no longer finite" if np.isfinite(position.loss_sum) else "loss is no longer finite"
        raise DivergedError(
            f"The {what} in task {position.task + 1}, epoch {position.epoch + 1}: training diverged. "
            "Lower method.learning_rate."
        )

    def end_epoch(self, task: Task) -> None:
        self.check_finite()
        position = self.position
        loss = position.loss_sum / position.step
        accuracy = 100 * position.correct / position.presented
        self.record(
            "epoch",
            task=position.task,
            epoch=position.epoch,
            steps=position.step,
            samples=position.presented,
            loss=loss,
            train_accuracy=accuracy,
            **self.sparsifier.densities(),
        )
        self.sparsifier.end_epoch(self._moment(), task)
        self._log_sparsity()
        position.next_epoch()

    def _moment(self) -> Moment:
        position = self.position
        return Moment(position.task, position.epoch, position.step, position.total_steps, self.epochs)

    def _log_sparsity(self) -> None:
        for record in self.sparsifier.records:
            self.record("sparsity", task=self.position.task, epoch=self.position.epoch, **record)
        self.sparsifier.records = []

    def batches(self, samples: int) -> int:
        """How many batches the samples make."""
        return batches(samples, self.settings.batch_size, self.settings.drop_last)

    def epoch_steps(self, task: Task, epochs: int) -> EpochSteps:
        """The steps of a task of this many epochs."""
        return EpochSteps(epochs, lambda epoch: self.batches(self.sparsifier.samples_in_epoch(task, epoch)))

    def steps_done(self, task: Task) -> int:
        return self._plan_of(task).before(self.position.epoch) + self.position.step

    def steps_of(self, task: Task) -> int:
        return self._plan_of(task).before(self.epochs)

    def schedule_place(self, task: Task) -> tuple[int, int]:
        """Which step of how many the next one is to the schedule of the learning rate."""
        return self.steps_done(task), self.steps_of(task)

    def replan(self, epochs: int) -> None:
        """The task at hand gets this many epochs, and the sparsifier spreads what it does over them."""
        self.epochs, self._planned = epochs, None
        self.sparsifier.replan(epochs)

    def _plan_of(self, task: Task) -> EpochSteps:
        """Every step asks for it, so it is kept."""
        planned_for = task.index, self.epochs
        if self._planned is None or self._planned[0] != planned_for:
            self._planned = planned_for, self.epoch_steps(task, self.epochs)
        return self._planned[1]
