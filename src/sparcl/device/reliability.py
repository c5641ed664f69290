"""Whether confidence comes true, and whether known and unknown pictures can be told apart."""

import numpy as np
from numpy.typing import NDArray

BINS = 10


def calibration_error(confidences: NDArray[np.float64], right: NDArray[np.bool_]) -> float:
    """The expected difference between confidence and the share of right answers, in bins of equal width; 0 to 1."""
    bins = np.minimum((confidences * BINS).astype(int), BINS - 1)
    gaps = [abs(float(confidences[bins == b].sum()) - int(right[bins == b].sum())) for b in range(BINS)]
    return sum(gaps) / len(right)


def auroc(positive: NDArray[np.float64], negative: NDArray[np.float64]) -> float:
    """How often a positive scores higher than a negative, if one of each is drawn; ties count half."""
    ordered = np.sort(negative)
    below, up_to = np.searchsorted(ordered, positive, "left"), np.searchsorted(ordered, positive, "right")
    return float((below + up_to).sum()) / (2 * len(positive) * len(negative))
