"""The loop: tasks one after another, each for some epochs, evaluated at its end; checkpoints at any step.

    for each task:  begin_task
        for each epoch:
            for each batch:  method.step      (snapshot? checkpoint? asked to stop?)
        end_task, evaluate

The position in these loops is data (`Position`), not a place in the program, so a run resumes anywhere between two
steps and goes on bit for bit as if it had never stopped.
"""

import time
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sparcl.data import Samples, Stream, Task
from sparcl.errors import SparclError
from sparcl.generators import Generators
from sparcl.graph import build_model
from sparcl.learning import checkpoints, state, tuning
from sparcl.learning.costs import CountingWatcher
from sparcl.learning.evaluation import Accuracies, Evaluator, kinds
from sparcl.learning.position import PhaseClock, Position
from sparcl.learning.run_directory import MetricsLog, RunDirectory
from sparcl.learning.settings import Settings
from sparcl.methods import METHODS, Batch, TaskwiseRehearsal, Workplace
from sparcl.metrics import AccuracyMatrix, mean_row, peak_memory_mb
from sparcl.network import build_network, choose_backend
from sparcl.network.native import NativeNetwork
from sparcl.sparsity import SPARSIFIERS, Moment, Site


class Stopped(Exception):  # noqa: N818 (not an error: the run was asked to stop, and its state is saved)
    """The run was asked to stop; its checkpoint is written."""


class Listener(Protocol):
    """Who watches a run."""

    def noted(self, text: str) -> None: ...
    def started(self, total_steps: int, done_steps: int) -> None: ...
    def stepped(self, position: Position, loss: float) -> None: ...
    def evaluated(self, position: Position, accuracies: Accuracies) -> None: ...


class Trainer:
    def __init__(self, settings: Settings, stream: Stream, directory: RunDirectory, listener: Listener) -> None:
        self.stream = stream
        self.directory = directory
        self.listener = listener
        self.generators = Generators(settings.seed)
        method = METHODS[settings.method.name]
        if stream.domains and "domain-il" not in method.scenarios:
            raise SparclError(f"{method.name} needs tasks with classes of their own: it cannot learn {stream.name}.")
        graph = build_model(settings.model, stream.image_shape, stream.classes, settings.width)
        backend, self.backend_reason = choose_backend(settings.backend, graph, settings.sparsity > 0)
        # A run is stored with the backend it really uses: it must resume on the same one.
        self.settings = settings = settings.model_copy(update={"backend": backend})
        self.network = build_network(graph, self.generators["initialisation"], settings.threads, backend)
        workplace = Workplace(
            self.network,
            stream.augmentation,
            self.generators,
            settings.buffer_size,
            settings.replay_batch_size,
            len(stream.tasks),
        )
        self.method = method(workplace, settings.method.hyperparameters())
        self.tasks = (_union(stream),) if method.learns_all_tasks_at_once else stream.tasks
        site = Site(
            self.network,
            self.method,
            self.generators,
            settings.sparsity,
            settings.batch_size,
            settings.epochs,
            settings.epochs * sum(self.batches(len(task.train)) for task in self.tasks),
            lambda samples: self.watcher.count_importance(samples),
        )
        self.sparsifier = SPARSIFIERS[settings.sparsifier.name](site, settings.sparsifier.hyperparameters())
        self.watcher = CountingWatcher(self.sparsifier, self.network)
        self.method.watcher = self.watcher
        self.evaluator = Evaluator(self.method, stream, settings.evaluation, self._poll)
        self._check_batch_sizes()
        self.position = Position()
        self.order: NDArray[np.int64] = np.empty(0, np.int64)
        measured = kinds(stream)
        if settings.evaluation.snapshots:
            measured += tuple(f"{kind}_snapshots" for kind in measured)
        self.accuracy = {kind: AccuracyMatrix(len(stream.tasks)) for kind in measured}
        self.clock = PhaseClock()
        self._stop_requested = False
        self._last_checkpoint = time.monotonic()

    def _check_batch_sizes(self) -> None:
        """Batch statistics need more than one number a channel, which a single sample with 1x1 maps does not give."""
        replayed = self.settings.buffer_size
        if isinstance(self.method, TaskwiseRehearsal):
            replayed //= len(self.stream.tasks)  # what the second task finds in the buffer
        smallest = min(self.settings.batch_size, self.settings.replay_batch_size, replayed or self.settings.batch_size)
        tiny = [node.name for node in self.network.graph if node.op == "batch_norm" and node.shape[1:] == (1, 1)]
        if smallest == 1 and tiny:
            raise SparclError(
                f"Batches of one sample cannot be normalised at {tiny[0]}, whose maps have a single pixel. "
                "Raise batch_size, replay_batch_size and buffer_size to at least 2."
            )

    def request_stop(self) -> None:
        """Stop at the next safe moment, with a checkpoint. May be called from a signal handler."""
        self._stop_requested = True

    def run(self) -> dict[str, Any]:
        """Learn every task (from where the newest checkpoint stands) and return the result."""
        self.directory.record_stream(self.stream.describe())
        self.log = MetricsLog(self.directory.path / "metrics.jsonl")
        try:
            resumed = self._resume()
            if resumed:
                self._use_stored_tuning()
            else:
                self.sparsifier.begin_run()
            self.listener.noted(f"Backend: {self.settings.backend} ({self.backend_reason}).")
            self.listener.started(sum(self._steps_of(task) for task in self.tasks), self.position.total_steps)
            try:
                if not resumed:
                    self._tune()
                self._evaluate_untrained()
                for task in self.tasks[self.position.task :]:
                    self._learn(task)
            except Stopped:
                self._checkpoint()
                raise
        finally:
            self.log.close()
        result = {kind: {**matrix.summary(), **matrix.to_json()} for kind, matrix in self.accuracy.items()}
        costs = {
            "seconds": self.clock.seconds,
            "peak_memory_mb": peak_memory_mb(),
            "steps": self.position.total_steps,
            "flops": self.watcher.summary(),
        }
        self.directory.finish(result, costs)
        return result

    # One task

    def _learn(self, task: Task) -> None:
        position = self.position
        if not position.begun:
            self.method.begin_task(task)
            self.sparsifier.begin_task(self._moment(), task)
            self._log_sparsity()
            position.begun = True
        while True:
            self._snapshot_if_due(task)
            self._checkpoint_if_due()
            self._poll()
            if position.step and position.step == self.batches(len(self.order)):
                self._end_epoch(task)
            if position.epoch == self.settings.epochs:
                break
            with self.clock.measure("train"):
                self.train_step(task)
        if not position.ended:
            with self.clock.measure("train"):
                self.method.end_task(task)
            position.ended = True
        self._evaluate(task)
        position.next_task()
        self._checkpoint()

    def train_step(self, task: Task) -> None:
        position = self.position
        if position.step == 0:
            present = self.sparsifier.samples(task)
            self.order = present[self.generators["order"].permutation(len(present))]
        moment = self._moment()
        self.sparsifier.begin_step(moment)
        start = position.step * self.settings.batch_size
        last = position.step + 1 == self.batches(len(self.order)) and not self.settings.drop_last
        chosen = self.order[start:] if last else self.order[start : start + self.settings.batch_size]
        images = self.stream.augmentation.train(
            task.train.images, task.train.positions[chosen], self.generators["augmentation"]
        )
        progress = self._steps_done(task) / self._steps_of(task)
        batch = Batch(images, task.train.labels[chosen], task.index, task.classes, task.train, chosen, progress)
        self.method.loss, self.method.replayed_images, self.watcher.batch = 0.0, [], len(batch)
        logits = self.method.step(batch)
        self.sparsifier.end_step(moment, batch, logits)
        seen = logits[:, : task.classes.stop]
        position.correct += int((seen.argmax(axis=1) == batch.labels).sum())
        position.presented += len(batch)
        position.loss_sum += self.method.loss
        position.step += 1
        position.total_steps += 1
        self.listener.stepped(position, self.method.loss)

    def _end_epoch(self, task: Task) -> None:
        position = self.position
        loss = position.loss_sum / position.step
        if not np.isfinite(loss):
            raise SparclError(
                f"The loss became {loss} in task {position.task + 1}, epoch {position.epoch + 1}: training diverged. "
                "Lower method.learning_rate."
            )
        accuracy = 100 * position.correct / position.presented
        self.log.write(
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
        return Moment(position.task, position.epoch, position.step, position.total_steps, self.settings.epochs)

    def _log_sparsity(self) -> None:
        for record in self.sparsifier.records:
            self.log.write("sparsity", task=self.position.task, epoch=self.position.epoch, **record)
        self.sparsifier.records = []

    # Evaluation

    def _evaluate_untrained(self) -> None:
        """The accuracies of the untrained network, against which forward transfer is measured."""
        if self.position.begun or self.position.task:
            return
        with self.clock.measure("evaluate"):
            rows = self.evaluator.accuracies(self.stream.tasks, learned=0)
        for kind, row in rows.items():
            self.accuracy[kind].untrained[:] = row
        self.log.write("untrained", **rows)

    def _evaluate(self, task: Task) -> None:
        """Fill the matrices' row of this task; one task ahead is judged too, for forward transfer."""
        learned = task.index + 1
        confusion = np.zeros((self.stream.classes, self.stream.classes), np.int64)
        with self.clock.measure("evaluate"):
            rows = self.evaluator.accuracies(self.stream.tasks[: learned + 1], learned, confusion)
        self.directory.record_confusion(self.evaluator.confusion_kind, task.index, confusion.tolist())
        self.listener.evaluated(self.position, {kind: row[:learned] for kind, row in rows.items()})
        if self.position.snapshots:
            for kind in kinds(self.stream):
                rows[f"{kind}_snapshots"] = mean_row([snapshot[kind] for snapshot in self.position.snapshots])
        for kind, row in rows.items():
            self.accuracy[kind].rows[task.index, : len(row)] = row
        self.log.write("task", task=self.position.task, **rows)

    def _snapshot_if_due(self, task: Task) -> None:
        """Snapshots are spread evenly over the last steps of a task; the last one is at its end."""
        steps = self._steps_of(task)
        wanted = min(self.settings.evaluation.snapshots, steps)
        done = self._steps_done(task)
        gap = max(1, min(self.settings.evaluation.snapshot_steps, steps) // max(wanted, 1))
        due = wanted - (steps - done + gap - 1) // gap
        if not done or len(self.position.snapshots) >= due:
            return
        with self.clock.measure("evaluate"):
            tasks, learned = self.stream.tasks[: task.index + 1], task.index + 1
            if self.settings.evaluation.bn_recalibration:
                with self.evaluator.recalibrated(self.method.recalibration_images(task), self.settings.batch_size):
                    rows = self.evaluator.accuracies(tasks, learned)
            else:
                rows = self.evaluator.accuracies(tasks, learned)
        self.position.snapshots.append(rows)

    # Stopping and resuming

    def _poll(self) -> None:
        if self._stop_requested:
            raise Stopped

    def _checkpoint_if_due(self) -> None:
        if time.monotonic() - self._last_checkpoint >= 60 * self.settings.checkpoint.minutes:
            self._checkpoint()

    def _checkpoint(self) -> None:
        with self.clock.measure("checkpoint"):
            tensors, rest = state.capture(self)
            checkpoints.save(self.directory.checkpoints, self.position.total_steps, tensors, rest)
        self._last_checkpoint = time.monotonic()

    def _tune(self) -> None:
        """Tune the engine before a long run; the clock of the run includes it."""
        settings, network = self.settings, self.network
        if not isinstance(network, NativeNetwork) or not settings.tuning_seconds:
            return
        steps = sum(self._steps_of(task) for task in self.tasks)
        flops = 6 * network.graph.macs() * (1 - settings.sparsity) * settings.batch_size * steps
        if flops < tuning.WORTH_TUNING:
            return
        with self.clock.measure("tuning"):
            path = self.directory.path / "tuning.json"
            results = tuning.tune_run(
                network, settings.batch_size, settings.tuning_seconds, path, lambda share: self._poll()
            )
        self.listener.noted(tuning.summary(results))

    def _use_stored_tuning(self) -> None:
        if isinstance(self.network, NativeNetwork):
            tuning.use_stored(self.network, self.directory.path / "tuning.json")

    def _resume(self) -> bool:
        """Whether there was a checkpoint to go on from."""
        found = checkpoints.load_newest(self.directory.checkpoints)
        if found is None:
            self.log.cut(0)
            return False
        try:
            state.restore(self, *found)
        except (KeyError, ValueError, TypeError, IndexError, OverflowError, AttributeError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise SparclError(
                f"The checkpoint in {self.directory.path} does not belong to this run ({reason}). Start the run anew."
            ) from error
        return True

    def batches(self, samples: int) -> int:
        """How many batches so many samples make. A lone last sample joins the batch before it: batch statistics of a
        single sample mean nothing."""
        whole, rest = divmod(samples, self.settings.batch_size)
        if whole and (self.settings.drop_last or (rest == 1 and self.settings.batch_size > 1)):
            return whole
        return whole + (rest > 0)

    def _steps_in(self, task: Task, epoch: int) -> int:
        return self.batches(self.sparsifier.samples_in_epoch(task, epoch))

    def _steps_done(self, task: Task) -> int:
        return sum(self._steps_in(task, epoch) for epoch in range(self.position.epoch)) + self.position.step

    def _steps_of(self, task: Task) -> int:
        return sum(self._steps_in(task, epoch) for epoch in range(self.settings.epochs))


def _union(stream: Stream) -> Task:
    """All tasks as one; it counts as the last, so that its evaluation fills the last row."""
    parts = [task.train for task in stream.tasks]
    train = Samples(
        parts[0].images,
        np.concatenate([part.positions for part in parts]),
        np.concatenate([part.labels for part in parts]),
    )
    last = stream.tasks[-1]
    return Task(last.index, range(last.classes.stop), train, last.test, last.validation)
