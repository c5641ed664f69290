"""Setting a share of a class's images aside, the same images every time."""

import numpy as np
from numpy.typing import NDArray


def count_aside(count: int, share: float) -> int:
    """How many of two or more are set aside: at least one, never all."""
    return min(max(1, round(share * count)), count - 1)


def set_aside(
    positions: NDArray[np.int64], share: float, seed: list[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split two or more positions into those kept and a share set aside."""
    count = count_aside(len(positions), share)
    shuffled = np.random.default_rng(seed).permutation(positions)
    return np.sort(shuffled[count:]), np.sort(shuffled[:count])
