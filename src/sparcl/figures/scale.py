"""Axes: which values they cover, and round numbers on them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

WANTED_TICKS = 5


@dataclass(frozen=True)
class Axis:
    title: str
    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    logarithmic: bool = False

    @classmethod
    def covering(cls, title: str, values: Sequence[float]) -> "Axis":
        """From a round number to a round number."""
        found = ticks(min(values), max(values)) if values else ticks(0, 1)
        return cls(title, found[0], found[-1], [(tick, short(tick)) for tick in found])

    @classmethod
    def within(cls, title: str, values: Sequence[float], names: Sequence[tuple[float, str]] | None = None) -> "Axis":
        """From the smallest to the largest value. With names, these are on the axis instead of numbers."""
        every = [*values, *(value for value, _ in names or ())]
        low, high = (min(every), max(every)) if every else (0.0, 1.0)
        return cls(title, low, high, _inside(ticks(low, high), low, high) if names is None else names)

    @classmethod
    def around(cls, title: str, values: Sequence[float], logarithmic: bool = False) -> "Axis":
        """With some room at both ends."""
        low, high = (min(values), max(values)) if values else (0.0, 1.0)
        if logarithmic:
            low, high = low / 1.4, high * 1.4
            return cls(title, low, high, _inside(_powers(low, high), low, high), True)
        room = 0.12 * (high - low) or 0.1 * abs(high) or 1.0
        low, high = low - room, high + room
        return cls(title, low, high, _inside(ticks(low, high), low, high))

    def share(self, value: float) -> float:
        """From 0 at the low end to 1 at the high end."""
        if self.logarithmic:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5


def ticks(low: float, high: float) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten that cover everything from low to high."""
    if high - low <= 1e-9 * max(abs(low), abs(high), 1e-200):  # nothing that could be divided
        high = low + (abs(low) if abs(low) > 1e-200 else 1.0)
    rough = (high - low) / WANTED_TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def _powers(low: float, high: float) -> list[float]:
    """1, 2 and 5 times every power of ten between them, and a little beyond."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [factor * 10.0**power for power in range(first, last + 1) for factor in (1, 2, 5)]


def _inside(values: Sequence[float], low: float, high: float) -> list[tuple[float, str]]:
    return [(value, short(value)) for value in values if low <= value <= high]


def short(value: float) -> str:
    """A number in few characters: 0.05, 12.5, 20k, 3.1e12."""
    if value and not 1e-3 <= abs(value) < 1e9:
        return f"{value:.3g}".replace("e+", "e").replace("e0", "e").replace("e-0", "e-")
    for limit, unit in ((1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            return f"{value / (limit if unit == 'M' else 1e3):.4g}{unit}"
    return f"{value:.6g}"


def thinned(count: int, most: int) -> Sequence[int]:
    """At most `most` of the places 0 to count - 1, at equal distances and starting with the first."""
    return range(0, count, max(1, -(-count // max(1, most))))
