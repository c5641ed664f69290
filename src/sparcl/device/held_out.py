"""Pictures that are never trained on, so that what the learner says about itself is honest.

A picture's own content decides, not its name or place: the same picture, learned a second time, falls on the same side.
"""

import hashlib
from collections.abc import Iterator
from itertools import combinations, islice

import numpy as np
from numpy.typing import NDArray

MIN_PICTURES = 4  # of a class, to hold at least one out
MIN_TO_LEARN = 2  # of all together: a batch of one has no statistics


def digests(images: NDArray[np.uint8]) -> NDArray[np.uint64]:
    return np.array([digest(image) for image in images], np.uint64)


def choose(found: NDArray[np.uint64], share: float, most: int, known: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which pictures of one class are held out, by their digests. `known` ones are held out already, and stay so."""
    held = np.isin(found, known)
    if share <= 0:
        return held
    fresh = np.flatnonzero(~held)
    below = fresh[found[fresh] < np.uint64(share * 2.0**64)]
    if not len(below) and not held.any() and len(found) >= MIN_PICTURES:
        below = fresh[[found[fresh].argmin()]]
    chosen = np.unique(found[below])  # copies of a picture stay together
    room = min(max(0, most - len(known)), max(0, len(np.unique(found[fresh])) - 1))  # one is left to learn from
    return held | np.isin(found, chosen[:room])


def select(
    found: NDArray[np.uint64],
    labels: NDArray[np.int64],
    share: float,
    most: int,
    known: NDArray[np.uint64],
    known_labels: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Which pictures of a learning session are held out. `known` ones were before, and stay so under every name."""
    held = np.isin(found, known)
    for label in np.unique(labels):
        of_class = np.flatnonzero(labels == label)
        held[of_class] |= choose(found[of_class], share, most, known[known_labels == label])
    if (~held).sum() < MIN_TO_LEARN:
        return np.isin(found, known)  # learning comes first
    return held


def in_two_classes(
    found: NDArray[np.uint64], labels: NDArray[np.int64], most: int = 3
) -> Iterator[tuple[int, int, int]]:
    """Pairs of classes that have the same pictures, and how many; the first few such pairs."""
    classes = [int(label) for label in np.unique(labels)]
    of_class = {label: np.unique(found[labels == label]) for label in classes}
    values, times = np.unique(np.concatenate([*of_class.values(), found[:0]]), return_counts=True)
    shared = values[times > 1]
    if not len(shared):
        return
    of_class = {label: own[np.isin(own, shared)] for label, own in of_class.items()}
    pairs = (
        (one, other, len(np.intersect1d(of_class[one], of_class[other]))) for one, other in combinations(classes, 2)
    )
    yield from islice((pair for pair in pairs if pair[2]), most)


def known_elsewhere(
    found: NDArray[np.uint64], labels: NDArray[np.int64], known: NDArray[np.uint64], known_labels: NDArray[np.int64]
) -> Iterator[tuple[int, int, int]]:
    """Classes of which pictures are known under another name: the label given, the label known, and how many."""
    shared = np.intersect1d(found, known)
    for given in np.unique(labels[np.isin(found, shared)]):
        own = np.intersect1d(found[labels == given], shared)
        for other in np.unique(known_labels[np.isin(known, own)]):
            count = len(np.intersect1d(own, known[known_labels == other]))
            if other != given and count:
                yield int(given), int(other), count


def digest(image: NDArray[np.uint8]) -> int:
    return int.from_bytes(hashlib.blake2b(image.tobytes(), digest_size=8).digest(), "big")
