"""Learning within a limited time, so that it ends well and not just anywhere.

After a few steps it is known how long one takes. Then as many epochs are planned as fit, with stages shortened in
proportion, so that masks move and samples leave at the same points of the task as they would with all the time there
is. At the end of each epoch the plan is made again with what is left, and when time runs out in the middle of one, that
epoch ends there, as the last: the mask goes back to its size and nothing half-grown is left.
"""

import bisect
import math
import time
from collections.abc import Callable

MEASURED_STEPS = 3  # after the first, which also compiles


class TimePlan:
    def __init__(self, seconds: float, used: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._start = clock() - used
        self._steps = -1  # the first one is not counted
        self._first_step_done = 0.0
        self._last_step_done = 0.0

    @property
    def used(self) -> float:
        return self._clock() - self._start

    def stepped(self) -> None:
        self._steps += 1
        self._last_step_done = self._clock()
        if self._steps == 0:
            self._first_step_done = self._last_step_done

    @property
    def measured(self) -> bool:
        return self._steps >= MEASURED_STEPS

    @property
    def just_measured(self) -> bool:
        return self._steps == MEASURED_STEPS

    @property
    def seconds_a_step(self) -> float:
        return (self._last_step_done - self._first_step_done) / max(1, self._steps)

    def steps_left(self, reserved: float) -> int:
        """Steps that fit into what is left, when `reserved` steps' worth of time is needed at the end."""
        if not self.measured:
            return 0 if self.used >= self._seconds else 1_000_000
        left = (self._seconds - self.used) / max(self.seconds_a_step, 1e-9) - reserved
        return max(0, math.floor(min(left, 1e9)))


def epochs_that_fit(most: int, steps: Callable[[int], int], fit: int) -> int:
    """The largest number of epochs, up to `most`, that takes no more than `fit` steps; at least one.

    More epochs must take more steps: then the answer is found in a few questions.
    """
    return max(1, bisect.bisect_right(range(most + 1), fit, lo=1, key=steps) - 1)
