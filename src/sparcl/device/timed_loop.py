"""A loop that learns one task in the time it is given: as many epochs as fit (time_plan.py)."""

from collections.abc import Callable, Sequence

import numpy as np

from sparcl.data import Augmentation, Task
from sparcl.device.time_plan import TimePlan, epochs_that_fit
from sparcl.graph import Graph
from sparcl.learning.loop import Loop
from sparcl.learning.settings import Settings


class TimedLoop(Loop):
    """Whoever uses it calls `keep_to_the_time` between steps, and tells `time` of each."""

    def __init__(self, settings: Settings, graph: Graph, augmentation: Augmentation, tasks: Sequence[Task]) -> None:
        super().__init__(settings, graph, augmentation, tasks)
        self.affordable_steps: int | None = None  # of the task, in the time there is; None: not known
        self.limit_time(None)

    def limit_time(self, seconds: float | None, used: float = 0.0) -> None:
        """From now on; so much of it is `used` already. None: there is no limit."""
        self._limited = seconds is not None
        self.time = TimePlan(np.inf if seconds is None else seconds, used)

    def reserved_steps(self) -> float:
        """What comes after the last step, in steps."""
        return 0.0

    def keep_to_the_time(self, task: Task) -> None:
        position = self.position
        if not self._limited or not position.step or position.epoch >= self.epochs:
            return
        fit = self.time.steps_left(self.reserved_steps())
        at_the_end = self.epoch_is_over()
        if fit == 0:
            # What was presented so far is the epoch, and the epoch is the last one.
            self.order = self.order[: position.step * self.settings.batch_size] if not at_the_end else self.order
            self.epochs = position.epoch + 1
        elif self.time.just_measured and position.epoch == 0:
            self.affordable_steps = position.step + fit
            self.replan(epochs_that_fit(self.settings.epochs, self._steps_when_planned(task), self.affordable_steps))
        elif at_the_end and self.time.measured:
            self.affordable_steps = self.steps_done(task) + fit
            further = epochs_that_fit(
                self.settings.epochs,
                lambda epochs: self.epoch_steps(task, epochs).before(epochs),
                self.affordable_steps,
            )
            self.epochs = max(position.epoch + 1, further)

    def schedule_place(self, task: Task) -> tuple[int, int]:
        """Where not even one epoch fits into the time, the rate falls within the steps that do."""
        step, steps = super().schedule_place(task)
        return step, steps if self.affordable_steps is None else min(steps, self.affordable_steps)

    def _steps_when_planned(self, task: Task) -> Callable[[int], int]:
        def steps(epochs: int) -> int:
            self.replan(epochs)
            return self.steps_of(task)

        return steps
