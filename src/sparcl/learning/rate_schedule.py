"""How the learning rate changes while a task is learned: a pure function of the place in it, so nothing is stored."""

import math
from typing import Literal

from sparcl.checked import Checked, setting


class ScheduleSettings(Checked):
    name: Literal["constant", "linear", "cosine"] = setting(
        default="constant", meaning="how the learning rate falls: not at all, or to 0 at the end"
    )
    warmup_steps: int = setting(default=0, ge=0, meaning="steps in which the learning rate first rises from 0")
    span: Literal["task", "run"] = setting(default="task", meaning="start again with each task, or once for the run")

    def factor(self, step: int, steps: int) -> float:
        """What the learning rate of a step (from 0) of so many is multiplied by."""
        if step < self.warmup_steps:
            return (step + 1) / self.warmup_steps
        if self.name == "constant":
            return 1.0
        done = min(1.0, (step - self.warmup_steps) / max(1, steps - self.warmup_steps))
        return 1.0 - done if self.name == "linear" else (1 + math.cos(math.pi * done)) / 2
