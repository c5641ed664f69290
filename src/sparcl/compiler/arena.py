"""Placing buffers in one arena so that buffers in use at the same time do not overlap."""

from collections.abc import Iterable

from sparcl.compiler.plan import ArenaBuffer

ALIGNMENT = 16  # floats: a cache line


def place(buffers: Iterable[ArenaBuffer]) -> int:
    """Gives every buffer its offset and returns the size of the arena.

    The largest are placed first, each as low as possible: simple, and close to the best when few sizes occur.
    """
    placed: list[ArenaBuffer] = []
    size = 0
    for buffer in sorted(buffers, key=lambda b: (-b.floats, b.first, b.name)):
        at_the_same_time = sorted(
            (other for other in placed if other.first <= buffer.last and buffer.first <= other.last),
            key=lambda b: b.offset,
        )
        offset = 0
        for other in at_the_same_time:
            if offset + buffer.floats <= other.offset:
                break
            offset = max(offset, _aligned(other.offset + other.floats))
        buffer.offset = offset
        placed.append(buffer)
        size = max(size, offset + buffer.floats)
    return size


def place_apart(buffers: Iterable[ArenaBuffer]) -> int:
    """The same without sharing, for timing single steps.

    In shared memory a step that runs alone may find another buffer's numbers, and what those mean as floats (NaN,
    denormal) can change how long it takes.
    """
    size = 0
    for buffer in buffers:
        buffer.offset = size
        size = _aligned(size + buffer.floats)
    return size


def _aligned(floats: int) -> int:
    return -(-floats // ALIGNMENT) * ALIGNMENT
