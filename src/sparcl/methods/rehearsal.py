"""Methods that rehearse: a buffer of past samples, and drawing from it."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparcl.data import Samples, Task
from sparcl.errors import SparclError
from sparcl.methods.buffer import RehearsalBuffer, Replay, ReservoirBuffer, TaskwiseBuffer
from sparcl.methods.method import Method, MethodContext
from sparcl.options import AtLeastOne

_Buffer = TypeVar("_Buffer", bound=RehearsalBuffer)


class WithBuffer(Method, Generic[_Buffer]):
    """Gives a method `self.buffer` (false while empty) and `self.replay()`."""

    replay_from_task: Annotated[AtLeastOne, "rehearse from this task on (the first is 1)"] = 1

    family = "rehearsal"
    replay_passes: ClassVar[int] = 1
    #: True if the buffer also keeps logits.
    keeps_logits: ClassVar[bool] = False
    #: True if the buffer is filled when a task ends, so that the first task has nothing to rehearse.
    fills_at_task_end: ClassVar[bool] = False

    def __init__(self, context: MethodContext, hyperparameters: Mapping[str, Any], kind: type[_Buffer]) -> None:
        super().__init__(context, hyperparameters)
        graph = context.network.graph
        self.buffer = kind(
            context.buffer_size,
            graph.input_shape,
            graph.classes,
            context.augmentation,
            context.generators,
            self.keeps_logits,
        )

    def begin_task(self, task: Task) -> None:
        super().begin_task(task)
        self._rest_until_wanted(task.index)

    def replay(self) -> Replay:
        """A fresh draw from the buffer. Say so when descending on it: `self.descend(..., replayed=True)`."""
        return self.buffer.draw(self.context.replay_batch_size)

    def _rest_until_wanted(self, task: int) -> None:
        self.buffer.resting = task + 1 < self.replay_from_task

    def recalibration_images(self, task: Task) -> NDArray[np.uint8]:
        return self.buffer.images[: len(self.buffer)] if len(self.buffer) else super().recalibration_images(task)

    def state(self) -> dict[str, NDArray[Any]]:
        return super().state() | {f"buffer.{key}": value for key, value in self.buffer.state().items()}

    def restore(self, state: dict[str, NDArray[Any]], task: int) -> None:
        super().restore(state, task)
        self._rest_until_wanted(task)
        prefix = "buffer."
        self.buffer.restore({key.removeprefix(prefix): state[key] for key in state if key.startswith(prefix)}, task)


class Rehearsal(WithBuffer[ReservoirBuffer]):
    """With a reservoir: present it every batch after its step, with `self.buffer.add(batch)`."""

    def __init__(self, context: MethodContext, hyperparameters: Mapping[str, Any]) -> None:
        super().__init__(context, hyperparameters, ReservoirBuffer)


class TaskwiseRehearsal(WithBuffer[TaskwiseBuffer]):
    """With a buffer that the method fills in `end_task`."""

    fills_at_task_end: ClassVar[bool] = True

    def __init__(self, context: MethodContext, hyperparameters: Mapping[str, Any]) -> None:
        super().__init__(context, hyperparameters, TaskwiseBuffer)
        if 0 < context.buffer_size < context.tasks:
            raise SparclError(
                f"{self.name} keeps samples of each task: {context.buffer_size} are too few for {context.tasks} "
                f"tasks. Set buffer_size to at least {context.tasks}, or to 0 to rehearse nothing."
            )

    def random_samples(self, task: Task, count: int) -> Samples:
        """Some of the task's training samples, chosen at random."""
        chosen = self.context.generators["exemplars"].choice(
            len(task.train), min(count, len(task.train)), replace=False
        )
        return task.train.select(chosen)

    def recalibration_images(self, task: Task) -> NDArray[np.uint8]:
        """The buffer holds only past tasks: the current one joins with as many images as each of them has."""
        if not len(self.buffer):
            return super().recalibration_images(task)
        share = len(self.buffer) // len(np.unique(self.buffer.tasks[: len(self.buffer)]))
        spread = np.linspace(0, len(task.train) - 1, min(share, len(task.train))).astype(np.int64)
        return np.concatenate([self.buffer.images[: len(self.buffer)], task.train.originals(spread)])
