"""Setting a share of a class's images aside, the same images every time."""

import numpy as np
from numpy.typing import NDArray


def set_aside(
    positions: NDArray[np.int64], share: float, seed: list[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split two or more positions into those kept and a share set aside: at least one, never all."""
    count = min(max(1, round(share * len(positions))), len(positions) - 1)
    shuffled = np.random.default_rng(seed).permutation(positions)
    return np.sort(shuffled[count:]), np.sort(shuffled[:count])
