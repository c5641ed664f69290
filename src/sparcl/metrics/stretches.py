"""Long schedules without a list: a function of the number of an epoch or a stage that only falls, as stretches."""

from collections.abc import Callable, Iterator


def stretches(count: int, value: Callable[[int], int]) -> Iterator[range]:
    """The numbers from 0 to `count`, cut wherever the value changes. It must never rise, so equal ends are enough."""
    start = 0
    while start < count:
        here = value(start)
        same, other = start, count  # the value is the same at the first, and another one at the second or after it
        while other - same > 1:
            middle = (same + other) // 2
            same, other = (middle, other) if value(middle) == here else (same, middle)
        yield range(start, other)
        start = other
