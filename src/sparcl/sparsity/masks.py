"""Choosing positions: keep the best, grow new ones. Counts are exact; ties go to the lower position."""

import numpy as np

from sparcl.network.parameters import Index, Scores, top_k

__all__ = ["grow_randomly", "random_mask", "shrink", "top_k"]


def random_mask(size: int, count: int, generator: np.random.Generator) -> Index:
    return np.sort(generator.choice(size, count, replace=False)).astype(np.int32)


def shrink(index: Index, scores: Scores, count: int) -> Index:
    """The `count` positions of highest score; all of them if there are no more than that."""
    return index[top_k(scores, min(count, len(index)))]


def grow_randomly(index: Index, size: int, count: int, generator: np.random.Generator) -> Index:
    """Add random unused positions until there are `count`."""
    unused = size - len(index)
    ranks = np.sort(generator.choice(unused, max(0, min(count, size) - len(index)), replace=False))
    # The r-th unused position is r plus the number of used ones before it; a list of all unused ones would be large.
    grown = ranks + np.searchsorted(index - np.arange(len(index)), ranks, side="right")
    return np.sort(np.concatenate([index, grown.astype(np.int32)]))
