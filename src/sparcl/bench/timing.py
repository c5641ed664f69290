"""Timing sides against each other: all of them take turns, so that a busy minute falls on all of them alike."""

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

Result = TypeVar("Result")
Step = Callable[[], object]
Turn = Callable[[int], list[float]]
"""Called as turn(count): the seconds of each of `count` steps. Raises LeftOutError if they cannot be measured."""
Note = Callable[[str], None]
Progress = Callable[[str, int, int], None]
"""Called as progress(what, done, total) during long work."""

TURN_SECONDS = 0.05
CALIBRATION_SECONDS = 0.3  # a turn of the calibration: what it drops by chance is not measured again
MAX_STEPS_IN_A_TURN = 20
CLOSE_RACE = 1.25


class LeftOutError(Exception):
    """Who cannot be measured, and why: a sentence for the notes below a table."""


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


def rounds_of(sides: Sequence[str], rounds: int) -> Iterator[str]:
    """Whose turn it is: in each round everyone has one, in the other direction every other round."""
    for number in range(rounds):
        yield from sides if number % 2 == 0 else reversed(sides)


def in_turns(sides: Mapping[str, Callable[[], Result]], rounds: int) -> dict[str, list[Result]]:
    """What each side returns in each round, for sides that measure themselves."""
    found: dict[str, list[Result]] = {name: [] for name in sides}
    for name in rounds_of(list(sides), rounds):
        found[name].append(sides[name]())
    return found


def interleaved(
    turns: Mapping[str, Turn],
    rounds: int,
    note: Note,
    progress: Progress = lambda what, done, total: None,
    what: str = "measuring",
    turn_seconds: float = TURN_SECONDS,
) -> dict[str, Times]:
    """Every side has a turn in every round. One that fails is left out entirely."""
    seconds: dict[str, list[float]] = {name: [] for name in turns}

    def take(name: str, count: int) -> list[float]:
        try:
            return turns[name](count)
        except LeftOutError as failure:
            note(str(failure))
            del seconds[name]
            return []

    counts = {}
    for place, name in enumerate(turns):
        progress(f"{what}: warming up", place, len(turns))
        for first in take(name, 1):
            counts[name] = _steps_in_a_turn(first, turn_seconds)
    for place, name in enumerate(rounds_of(list(seconds), rounds)):
        if name in seconds:
            progress(what, place, rounds * len(counts))
            measured = take(name, counts[name])
            if name in seconds:
                seconds[name] += measured
    return {name: Times(tuple(measured)) for name, measured in seconds.items()}


def without_the_slow(turns: Mapping[str, Turn], note: Note, progress: Progress, what: str) -> dict[str, Times]:
    """A short calibration: the times of those that may turn out to be the fastest."""
    measured = interleaved(turns, 2, note, progress, what, CALIBRATION_SECONDS)
    best = min((times.median_ms for times in measured.values()), default=0.0)
    return {name: times for name, times in measured.items() if times.median_ms <= CLOSE_RACE * best}


def timed(step: Step, count: int) -> list[float]:
    """A turn: the seconds of each of `count` steps."""
    # The first step of a turn is not measured: nobody shall pay for caches that another one has filled, and for
    # another one's threads that still wait for work.
    step()
    return [seconds_of(step) for _ in range(count)]


def seconds_of(step: Step) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def _steps_in_a_turn(seconds: float, turn_seconds: float) -> int:
    """Short steps are measured more often."""
    return min(MAX_STEPS_IN_A_TURN, max(1, math.ceil(turn_seconds / max(seconds, 1e-9))))
