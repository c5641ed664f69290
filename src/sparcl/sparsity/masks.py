"""Choosing positions: keep the best, grow new ones. Counts are exact; ties go to the lower position."""

import numpy as np
from numpy.typing import NDArray

from sparcl.network.parameters import Index

Scores = NDArray[np.floating]


def best(scores: Scores, count: int) -> Index:
    """The sorted places of the `count` highest scores."""
    if not 0 <= count <= len(scores):
        raise ValueError(f"{count} of {len(scores)} positions cannot be kept")
    if count == 0:
        return np.zeros(0, np.int32)
    scores = np.where(np.isnan(scores), -np.inf, scores)  # what cannot be compared is the worst
    least = np.partition(scores, len(scores) - count)[len(scores) - count]  # of those that are kept
    better = np.flatnonzero(scores > least)
    equal = np.flatnonzero(scores == least)[: count - len(better)]
    return np.sort(np.concatenate([better, equal])).astype(np.int32)


def random_mask(size: int, count: int, generator: np.random.Generator) -> Index:
    return np.sort(generator.choice(size, count, replace=False)).astype(np.int32)


def shrink(index: Index, scores: Scores, count: int) -> Index:
    """The `count` positions of highest score; all of them if there are no more than that."""
    return index[best(scores, min(count, len(index)))]


def grow_randomly(index: Index, size: int, count: int, generator: np.random.Generator) -> Index:
    """Add random unused positions until there are `count`."""
    unused = size - len(index)
    ranks = np.sort(generator.choice(unused, max(0, min(count, size) - len(index)), replace=False))
    # The r-th unused position is r plus the number of used ones before it; a list of all unused ones would be large.
    grown = ranks + np.searchsorted(index - np.arange(len(index)), ranks, side="right")
    return np.sort(np.concatenate([index, grown.astype(np.int32)]))
