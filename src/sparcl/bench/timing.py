"""Timing steps against each other: all of them take turns, so that a busy minute falls on all of them alike."""

import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Step = Callable[[], object]
Progress = Callable[[str, int, int], None]
"""Called as progress(what, done, total) while something long goes on."""

TURN_SECONDS = 0.05
CALIBRATION_SECONDS = 0.3  # a turn of the calibration: what it drops by chance is not measured again
MOST_STEPS_IN_A_TURN = 20
CLOSE_RACE = 1.25


@dataclass(frozen=True)
class Times:
    """How long a step took, each time that it was measured."""

    seconds: tuple[float, ...]

    @property
    def median_ms(self) -> float:
        return 1e3 * statistics.median(self.seconds)

    @property
    def spread_ms(self) -> tuple[float, float]:
        """The lower and the upper quartile: half of the measurements lie between them."""
        if len(self.seconds) == 1:
            return self.median_ms, self.median_ms
        lower, _, upper = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return 1e3 * lower, 1e3 * upper


def interleaved(
    steps: Mapping[str, Step],
    rounds: int,
    progress: Progress = lambda what, done, total: None,
    what: str = "measuring",
    turn_seconds: float = TURN_SECONDS,
) -> dict[str, Times]:
    """In each round every step has one turn, in the other direction every other round."""
    counts = {}
    for place, (name, step) in enumerate(steps.items()):
        progress(f"{what}: warming up", place, len(steps))
        counts[name] = _steps_in_a_turn(_turn(step, 1)[0], turn_seconds)
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(rounds):
        order = list(steps)[:: 1 if number % 2 == 0 else -1]
        for place, name in enumerate(order):
            progress(what, number * len(steps) + place, rounds * len(steps))
            seconds[name] += _turn(steps[name], counts[name])
    return {name: Times(tuple(measured)) for name, measured in seconds.items()}


def without_the_slow(steps: Mapping[str, Step], progress: Progress, what: str) -> dict[str, Times]:
    """A short calibration: the times of those steps that may turn out to be the fastest."""
    measured = interleaved(steps, 2, progress, what, CALIBRATION_SECONDS)
    best = min((times.median_ms for times in measured.values()), default=0.0)
    return {name: times for name, times in measured.items() if times.median_ms <= CLOSE_RACE * best}


def one_ms(step: Step) -> float:
    """How long a step takes, measured once: enough to tell what is many times slower."""
    return 1e3 * _turn(step, 1)[0]


def _turn(step: Step, count: int) -> list[float]:
    # The first step of a turn is not measured: nobody shall pay for caches that another one has filled, and for
    # another one's threads that still wait for work.
    step()
    seconds = []
    for _ in range(count):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    return seconds


def _steps_in_a_turn(seconds: float, turn_seconds: float) -> int:
    """Short steps are measured more often."""
    return min(MOST_STEPS_IN_A_TURN, max(1, math.ceil(turn_seconds / max(seconds, 1e-9))))
