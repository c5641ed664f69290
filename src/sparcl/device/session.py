"""One learning session: the loop of a run, around one task of pictures, from one committed state to the next.

    base state ──► room for new classes ──► judge ──► learn (checkpoints, time plan) ──► judge ──► next state

Until the next state is renamed into place the learner is as it was; from that moment on it has learned.
"""

import contextlib
import datetime
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sparcl.checked import plain
from sparcl.data import Task
from sparcl.device.assignment import augmentation_of, check_that_it_fits, description_of, task_of, training_of
from sparcl.device.base_state import BaseState
from sparcl.device.growth import grow, shrink_buffer
from sparcl.device.held_out import digests
from sparcl.device.history import HistoryEntry
from sparcl.device.initial_weights import begin_with_initial
from sparcl.device.judgement import Judgement, judge
from sparcl.device.learner_directory import LearnerDirectory
from sparcl.device.pending import Pending, PendingDirectory
from sparcl.device.settings import LearnerSettings
from sparcl.device.time_plan import TimePlan
from sparcl.device.timed_loop import TimedLoop
from sparcl.errors import SparclError
from sparcl.generators import Generators
from sparcl.learning.position import Position
from sparcl.learning.state import capture_loop, check_place, restore_loop
from sparcl.methods import ReservoirBuffer
from sparcl.network.restoring import checked_index
from sparcl.tensor_files import UNREADABLE, State, Tensors
from sparcl.wording import quoted

HISTORY_KEPT = 1000
IMPOSSIBLE = (*UNREADABLE, IndexError, OverflowError, AttributeError)


class SessionListener(Protocol):
    """Who watches a learning session."""

    def noted(self, text: str) -> None: ...
    def started(self, total_steps: int, done_steps: int) -> None: ...
    def stepped(self, epoch: int, epochs: int, step: int, total_steps: int, loss: float) -> None: ...


class Session(TimedLoop):
    def __init__(
        self,
        settings: LearnerSettings,
        base: BaseState,
        pending: Pending,
        directory: PendingDirectory,
        learner: Path,
        listener: SessionListener,
        clock: TimePlan,
    ) -> None:
        self.base, self.pending = base, pending
        self.directory, self.listener = directory, listener
        check_that_it_fits(settings, base, pending.request, learner)
        self.task = task_of(base, pending)
        self.description = description_of(settings, base, pending.request, self.task)
        super().__init__(
            training_of(settings, pending.request, self.description.outputs),
            self.description.graph(),
            augmentation_of(settings, self.description),
            [self.task],
        )
        self.before: Judgement | None = None
        found, used = directory.load(listener.noted), 0.0
        try:
            if found is not None:
                used = self._resume(*found)
            elif base.number:
                self._begin_from(base)
            else:
                if settings.training.weights.file is not None:
                    begin_with_initial(base.states, self.network.graph, self.network.parameters)
                self.begin_run()
        except IMPOSSIBLE as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise SparclError(
                f"What is stored in {learner} does not fit together ({reason}). "
                f"`sparcl undo {quoted(learner)}` drops the newest of it."
            ) from error
        minutes = pending.request.minutes
        self.limit_time(60 * minutes if minutes else None, used + clock.used)
        self._last_checkpoint = time.monotonic()

    def run(self) -> tuple[Tensors, State, HistoryEntry]:
        """Learn, and return the next state with what its history says of this session."""
        if self.before is None:
            held, labels = self._held_out(before=True)
            self.before = judge(self.method, held, labels, self.base.classes, None, self.poll)
        self.listener.started(self.steps_of(self.task), self.steps_done(self.task))
        self.learn(self.task)
        held, labels = self._held_out(before=False)
        after = judge(self.method, held, labels, self.pending.request.classes, self._buffer(), self.poll)
        return self._next_state(held, labels, after)

    # The loop

    def between_steps(self, task: Task) -> None:
        if time.monotonic() - self._last_checkpoint >= 60 * self.settings.checkpoint.minutes:
            self.checkpoint()
        self.poll()
        self.keep_to_the_time(task)

    def stepped(self) -> None:
        self.time.stepped()
        position = self.position
        self.listener.stepped(
            position.epoch, self.epochs, self.steps_done(self.task), self.steps_of(self.task), self.method.loss
        )

    def reserved_steps(self) -> float:
        """What comes after the last step, in steps: deciding about the mask, judging, writing."""
        judged = int(self.pending.held_out.sum()) + self._buffer().capacity
        if self.base.number:
            judged += len(self.base.held_out[1])
        return 2 + judged / (6 * self.settings.batch_size)

    # Stopping and going on

    def checkpoint(self) -> None:
        tensors, state = capture_loop(self)
        state |= {
            "base": self.base.number,
            "epochs": self.epochs,
            "used": self.time.used,
            "affordable_steps": self.affordable_steps,
            "before": self.before.to_json() if self.before else None,
        }
        self.directory.save(self.position.total_steps, tensors, state)
        self._last_checkpoint = time.monotonic()

    def _resume(self, tensors: Tensors, state: State) -> float:
        checked_index(self.network.graph, tensors)
        if state["base"] != self.base.number:
            raise ValueError("it belongs to another state")
        self.epochs = int(state["epochs"])
        if not 1 <= self.epochs <= self.settings.epochs:
            raise ValueError("the planned epochs are impossible")
        if "stage_epochs" in state:  # where version 0.1.0 kept it
            tensors = {"sparsifier.stage_length": np.array([state["stage_epochs"]]), **tensors}
        affordable = state.get("affordable_steps")  # version 0.1.0 did not know it
        self.affordable_steps = None if affordable is None else int(affordable)
        self._restore(tensors, state)
        if self.position.task != self.task.index:
            raise ValueError("it belongs to another task")
        if self.position.step:
            check_place(self, self.task)
        self.before = Judgement.from_json(state["before"]) if state["before"] is not None else None
        return float(state["used"])

    def _begin_from(self, base: BaseState) -> None:
        assert base.description is not None
        generators = Generators(self.settings.seed)
        generators.restore(base.state["generators"])
        tensors = grow(base.tensors, base.description.graph(), self.description.outputs, generators["initialisation"])
        tensors = shrink_buffer(tensors, self.settings.buffer_size, generators["reservoir"])
        self._restore(tensors, {**base.state, "generators": generators.state()})
        self.replan(self.settings.epochs)  # whatever time the last session had
        if self.position != Position(task=self.task.index, total_steps=self.position.total_steps):
            raise ValueError("the state is not the end of a learning session")

    def _restore(self, tensors: Tensors, state: State) -> None:
        logits = tensors["method.buffer.logits"]
        if np.isinf(logits).any() or (logits.shape[1] and np.isnan(logits[:, 0]).any()):
            raise ValueError("the buffer's logits are not numbers")
        restore_loop(self, tensors, state)

    # The next state

    def _next_state(
        self, held: NDArray[np.uint8], labels: NDArray[np.int64], after: Judgement
    ) -> tuple[Tensors, State, HistoryEntry]:
        request, task = self.pending.request, self.task
        buffer = self._buffer()
        kept = buffer.labels[: len(buffer)]
        of_these = np.unique(task.train.labels)
        entry = HistoryEntry(
            number=self.base.number + 1,
            when=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            pictures={request.classes[label]: int((task.train.labels == label).sum()) for label in of_these},
            kept={request.classes[label]: int((kept == label).sum()) for label in of_these},
            new=list(request.classes[len(request.classes) - request.new :]),
            skipped=len(request.skipped),
            epochs=self.epochs,
            steps=self.position.total_steps - self.base.position.total_steps,
            seconds=round(self.time.used, 1),
            before=self.before,
            after=after,
        )
        self.position.next_task()
        self.order = np.empty(0, np.int64)
        tensors, state = capture_loop(self)
        tensors |= {"held_out.images": held, "held_out.labels": labels}
        state |= {
            "network": self.description.to_json(),
            "history": plain([*self.base.history, entry][-HISTORY_KEPT:]),
        }
        return tensors, state, entry

    def _held_out(self, before: bool) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """All pictures to judge by; those of the classes known before, or of all."""
        held = np.flatnonzero(self.pending.held_out)
        images, labels = self.pending.images[held], self.pending.labels[held]
        every, every_label = images, labels
        if self.base.number:
            # A picture that is there already, because it was given a second time, counts once.
            fresh = ~np.isin(digests(images), digests(self.base.held_out[0]))
            every = np.concatenate([self.base.held_out[0], images[fresh]])
            every_label = np.concatenate([self.base.held_out[1], labels[fresh]])
        known = every_label < (len(self.base.classes) if before else len(self.pending.request.classes))
        return np.ascontiguousarray(every[known]), every_label[known]

    def _buffer(self) -> ReservoirBuffer:
        buffer = self.method.buffer  # type: ignore[attr-defined]
        assert isinstance(buffer, ReservoirBuffer)
        return buffer


def learn_pending(
    settings: LearnerSettings,
    directory: LearnerDirectory,
    base: BaseState,
    pending: Pending,
    listener: SessionListener,
    clock: TimePlan,
    on_session: Callable[[Session], None],
) -> HistoryEntry:
    """Learn what is pending on top of `base`, and commit it. `clock` runs since the command began."""
    session = Session(settings, base, pending, directory.pending, directory.home.path, listener, clock)
    on_session(session)
    tensors, state, entry = session.run()
    directory.states.commit(base.number + 1, tensors, state, settings.undo_steps + 1)
    with contextlib.suppress(SparclError):  # it is learned: what cannot be removed now is removed by the next one
        directory.pending.clear()
    return entry
