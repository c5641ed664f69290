"""How many steps the epochs of a task have, without a list of them: a task may have millions."""

import bisect
from collections.abc import Callable

from sparcl.metrics.stretches import stretches


class EpochSteps:
    """`steps_in` says how many steps an epoch has; samples are only ever removed, so it never has more than the one
    before it."""

    def __init__(self, epochs: int, steps_in: Callable[[int], int]) -> None:
        self._firsts: list[int] = []  # epochs from which on each has equally many steps
        self._each: list[int] = []
        self._before: list[int] = []  # steps before them
        total = 0
        for same in stretches(epochs, steps_in):
            each = steps_in(same.start)
            self._firsts.append(same.start)
            self._each.append(each)
            self._before.append(total)
            total += each * (same.stop - same.start)

    def before(self, epoch: int) -> int:
        """The steps before an epoch; before the one after the last: of all."""
        place = bisect.bisect_right(self._firsts, epoch) - 1
        return self._before[place] + (epoch - self._firsts[place]) * self._each[place]
