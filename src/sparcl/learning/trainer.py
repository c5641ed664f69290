"""Learning a stream of tasks, for an experiment: each is evaluated at its end; checkpoints at any step.

for each task:  learn (loop.py)      (snapshot? checkpoint? asked to stop?)
                evaluate
"""

import time
from typing import Any, Protocol

import numpy as np

from sparcl.data import Samples, Stream, Task
from sparcl.errors import SparclError
from sparcl.graph import build_model
from sparcl.learning import guessing, state, tuning
from sparcl.learning.evaluation import Accuracies, Evaluator, kinds
from sparcl.learning.loop import Loop, Stopped
from sparcl.learning.position import Position
from sparcl.learning.run_directory import MetricsLog, RunDirectory
from sparcl.learning.settings import Settings
from sparcl.learning.start_weights import start_from
from sparcl.methods import METHODS
from sparcl.metrics import AccuracyMatrix, mean_row, peak_memory_mb
from sparcl.network.native import NativeNetwork
from sparcl.tensor_files import State, Tensors

__all__ = ["RunListener", "Stopped", "Trainer"]


class RunListener(Protocol):
    """Who watches a run."""

    def noted(self, text: str) -> None: ...
    def warned(self, text: str) -> None: ...
    def started(self, total_steps: int, done_steps: int) -> None: ...
    def stepped(self, position: Position, loss: float) -> None: ...
    def evaluated(self, position: Position, accuracies: Accuracies) -> None: ...


class Trainer(Loop):
    def __init__(self, settings: Settings, stream: Stream, directory: RunDirectory, listener: RunListener) -> None:
        self.stream = stream
        self.directory = directory
        self.listener = listener
        method = METHODS[settings.method.name]
        if stream.domains and "domain-il" not in method.scenarios:
            raise SparclError(f"{method.name} needs tasks with classes of their own: it cannot learn {stream.name}.")
        graph = build_model(settings.model, stream.image_shape, stream.classes, settings.width)
        super().__init__(settings, graph, stream.augmentation, stream.tasks)
        starts_from_weights = settings.weights.file is not None and not directory.has_checkpoint()
        self._weights_loaded = list(start_from(settings.weights, self.network)) if starts_from_weights else []
        self.tasks = (_union(stream),) if method.learns_all_tasks_at_once else stream.tasks
        self.evaluator = Evaluator(self.method, stream, settings.evaluation, self.poll)
        measured = kinds(stream)
        if settings.evaluation.snapshots:
            measured += tuple(f"{kind}_snapshots" for kind in measured)
        self.accuracy = {kind: AccuracyMatrix(len(stream.tasks)) for kind in measured}
        self.peak_before = 0.0  # of the processes from which this one goes on
        self._tuning_due = False
        self._all_steps: int | None = None
        self._last_checkpoint = time.monotonic()

    def peak_memory_mb(self) -> float:
        return max(self.peak_before, peak_memory_mb())

    def run(self) -> dict[str, Any]:
        """Learn every task (from where the newest checkpoint stands) and return the result."""
        self.directory.record_stream(self.stream.describe())
        self.log = MetricsLog(self.directory.held)
        try:
            resumed = self._resume()
            if resumed:
                self._use_stored_tuning()
            else:
                self.begin_run()
                for note in self._weights_loaded:
                    self.listener.noted(note)
                if self._weights_loaded:
                    self._checkpoint()  # from here on the file is not needed any more
            self.listener.noted(f"Backend: {self.settings.backend} ({self.backend_reason}).")
            self.listener.started(sum(self.steps_of(task) for task in self.tasks), self.position.total_steps)
            try:
                self._tuning_due = not (self.position.total_steps or self.directory.tuning())
                self._evaluate_untrained()
                for task in self.tasks[self.position.task :]:
                    self._learn_and_evaluate(task)
            except Stopped:
                self._checkpoint()
                raise
            _, metrics_checksum = self.log.sync()
        finally:
            self.log.close()
        result: dict[str, Any] = {
            kind: {**matrix.summary(), **matrix.to_json()} for kind, matrix in self.accuracy.items()
        }
        at_once, rate = self.method.learns_all_tasks_at_once, self.method.learning_rate
        doubt = guessing.warning(self.directory.events(), self.stream.describe(), at_once, rate)
        if doubt is not None:
            result["warnings"] = [doubt]
        costs = {
            "seconds": self.clock.seconds,
            "peak_memory_mb": self.peak_memory_mb(),
            "steps": self.position.total_steps,
            "flops": self.watcher.summary(),
        }
        self.directory.finish(result, costs, metrics_checksum)
        return result

    def _learn_and_evaluate(self, task: Task) -> None:
        self.learn(task)
        self._evaluate(task)
        self.position.next_task()
        self._checkpoint()

    def between_steps(self, task: Task) -> None:
        if self._tuning_due:  # not before the first task has begun: SNIP has its mask only then
            self._tune()
            self._tuning_due = False
        self._snapshot_if_due(task)
        self._checkpoint_if_due()
        self.poll()

    def stepped(self) -> None:
        self.listener.stepped(self.position, self.method.loss)

    def schedule_place(self, task: Task) -> tuple[int, int]:
        if self.settings.schedule.span == "task":
            return super().schedule_place(task)
        if self._all_steps is None:
            self._all_steps = sum(self.steps_of(one) for one in self.tasks)
        return self.position.total_steps, self._all_steps

    def record(self, event: str, **values: Any) -> None:
        self.log.write(event, **values)

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
        if not self.settings.evaluation.snapshots:
            return
        steps, done = self.steps_of(task), self.steps_done(task)
        window = min(self.settings.evaluation.snapshot_steps, steps)
        wanted = min(self.settings.evaluation.snapshots, window)
        due = sum(number * window // wanted >= steps - done for number in range(wanted))
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

    def _checkpoint_if_due(self) -> None:
        if time.monotonic() - self._last_checkpoint >= 60 * self.settings.checkpoint.minutes:
            self._checkpoint()

    def _checkpoint(self) -> None:
        self.check_finite()
        with self.clock.measure("checkpoint"):
            tensors, rest = state.capture(self)
            self.directory.save_checkpoint(self.position.total_steps, tensors, rest)
        self._last_checkpoint = time.monotonic()

    def _tune(self) -> None:
        """Tune the engine before a long run; the clock of the run includes it."""
        settings, network = self.settings, self.network
        if not isinstance(network, NativeNetwork) or not settings.tuning_seconds:
            return
        steps = sum(self.steps_of(task) for task in self.tasks)
        flops = 6 * network.graph.macs() * (1 - settings.sparsity) * settings.batch_size * steps
        if flops < tuning.WORTH_TUNING:
            return
        with self.clock.measure("tuning"):
            results = tuning.tune_run(
                network, settings.batch_size, settings.tuning_seconds, self.directory, lambda share: self.poll()
            )
        self.listener.noted(tuning.summary(results))

    def _use_stored_tuning(self) -> None:
        if isinstance(self.network, NativeNetwork):
            tuning.use_stored(self.network, self.directory)

    def _resume(self) -> bool:
        """Whether there was a checkpoint to continue from."""
        resumed = self.directory.restore_checkpoint(self._restore, self.listener.warned)
        if not resumed:
            self.log.cut(0, None)
        return bool(resumed)

    def _restore(self, tensors: Tensors, rest: State) -> bool:
        state.restore(self, tensors, rest)
        return True


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
