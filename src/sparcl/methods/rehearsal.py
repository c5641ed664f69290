"""Methods that rehearse: a buffer of past samples, and drawing from it."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparcl.data import Task
from sparcl.methods.buffer import Replay, ReservoirBuffer
from sparcl.methods.method import Method, Workplace
from sparcl.options import AtLeastOne


class Rehearsal(Method):
    """Gives a method `self.buffer` (false while empty) and `self.replay()`."""

    replay_from_task: AtLeastOne = 1

    replay_passes: ClassVar[int] = 1
    #: True if the buffer also keeps the logits of the training forward.
    keeps_logits: ClassVar[bool] = False

    def __init__(self, workplace: Workplace, hyperparameters: Mapping[str, Any]) -> None:
        super().__init__(workplace, hyperparameters)
        graph = workplace.network.graph
        self.buffer = ReservoirBuffer(
            workplace.buffer_size,
            graph.input_shape,
            graph.classes,
            workplace.augmentation,
            workplace.generators,
            self.keeps_logits,
        )

    def begin_task(self, task: Task) -> None:
        super().begin_task(task)
        self._rest_until_wanted(task.index)

    def replay(self) -> Replay:
        """A fresh draw from the buffer."""
        drawn = self.buffer.draw(self.workplace.replay_batch_size)
        self.replayed_images.append(drawn.images)
        return drawn

    def _rest_until_wanted(self, task: int) -> None:
        self.buffer.resting = task + 1 < self.replay_from_task

    def recalibration_images(self) -> NDArray[np.uint8] | None:
        return self.buffer.images[: len(self.buffer)] if len(self.buffer) else None

    def state(self) -> dict[str, NDArray[Any]]:
        return super().state() | {f"buffer.{key}": value for key, value in self.buffer.state().items()}

    def restore(self, state: dict[str, NDArray[Any]], task: int) -> None:
        super().restore(state, task)
        self._rest_until_wanted(task)
        prefix = "buffer."
        self.buffer.restore({key.removeprefix(prefix): state[key] for key in state if key.startswith(prefix)})
