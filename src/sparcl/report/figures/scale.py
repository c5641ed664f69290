"""Round numbers on an axis."""

import math
from collections.abc import Sequence

WANTED_TICKS = 5


def ticks(low: float, high: float) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten that cover everything from low to high."""
    if high - low <= 1e-9 * max(abs(low), abs(high), 1e-200):  # nothing that could be divided
        high = low + (abs(low) if abs(low) > 1e-200 else 1.0)
    rough = (high - low) / WANTED_TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def short(value: float) -> str:
    """A number in few characters: 0.05, 12.5, 20k, 3.1e12."""
    if value and not 1e-3 <= abs(value) < 1e9:
        return f"{value:.3g}".replace("e+", "e").replace("e0", "e").replace("e-0", "e-")
    for limit, unit in ((1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            return f"{value / (limit if unit == 'M' else 1e3):.4g}{unit}"
    return f"{value:.6g}"


def thinned(count: int, most: int) -> Sequence[int]:
    """At most so many of the places 0..count-1, at equal distances and starting with the first."""
    return range(0, count, max(1, -(-count // max(1, most))))
