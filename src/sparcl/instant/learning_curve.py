"""Whether more pictures would help: how accurate a learner is with a quarter of its pictures, with half, with all.

Every fourth picture of each class teaches a discriminant, which is asked about all others; so do the other three
quarters, and the two halves. All pictures are judged by leaving each out. That takes seven closed forms and no picture
is looked at again. Pictures are in the order of their digests, so every part is a random one, and always the same.

Learning curves flatten. So twice as many pictures are promised at best what the last doubling brought, and carefully at
most half of that, or less if the last doubling brought much less than the one before.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparcl.instant.discriminant import Discriminant, Labels, Real
from sparcl.instant.kept import Kept
from sparcl.instant.left_out import LeftOut

PARTS = (4, 2)
MIN_PICTURES = 8  # of a class, on average; with fewer, a quarter says nothing
WORTH = 1.0  # percentage points by which accuracy must be expected to grow, or more pictures hardly help


@dataclass(frozen=True)
class LearningCurve:
    pictures: tuple[float, ...]  # of a class on average: a quarter, half, all
    accuracy: tuple[float, ...]  # with so many, in percent
    judged: int  # pictures that were asked about

    @property
    def noise(self) -> float:
        """The standard error of the last accuracy, in percentage points."""
        share = self.accuracy[-1] / 100
        return float(100 * np.sqrt(share * (1 - share) / self.judged))

    @property
    def gains(self) -> tuple[float, ...]:
        """What each doubling brought, in percentage points."""
        return tuple(float(gain) for gain in np.diff(self.accuracy))

    @property
    def expected(self) -> tuple[float, float]:
        """Accuracy with twice as many: carefully, and at best."""
        now, (before, last) = self.accuracy[-1], self.gains
        last = max(0.0, min(last, before, 100 - now))
        flatter = last / before if before > 0 else 0.0
        return now + last * min(flatter, 0.5), now + last

    @property
    def would_help(self) -> bool:
        low, high = self.expected
        return (low + high) / 2 - self.accuracy[-1] >= WORTH


def learning_curve(kept: Kept, left_out: LeftOut) -> LearningCurve | None:
    """None if there are too few pictures, or classes."""
    learned = kept.learned
    features, labels, classes = kept.features[learned].astype(np.float64), kept.labels[learned], len(kept.classes)
    if classes < 2 or len(labels) < MIN_PICTURES * classes:
        return None
    shares = [_accuracy_with_part(features, labels, classes, parts) for parts in PARTS]
    shares.append(100 * float((left_out.answers == left_out.labels).mean()))
    each = len(labels) / classes
    return LearningCurve(tuple(each / parts for parts in (*PARTS, 1)), tuple(shares), len(left_out.labels))


def _accuracy_with_part(features: Real, labels: Labels, classes: int, parts: int) -> float:
    """In percent: each part teaches, the others are asked about."""
    number = _numbers(labels, classes)
    # A class of fewer pictures than parts has at least one in each of them.
    shared = np.minimum(np.bincount(labels, minlength=classes), parts)[labels]
    right = asked = 0
    for part in range(parts):
        taught = number % shared == part % shared
        found = Discriminant.of(features[taught], labels[taught], classes)
        right += int((found.log_odds(features[~taught]).argmax(axis=1) == labels[~taught]).sum())
        asked += int((~taught).sum())
    return 100 * right / asked


def _numbers(labels: Labels, classes: int) -> NDArray[np.int64]:
    """Of each picture its place among those of its class."""
    numbers = np.empty(len(labels), np.int64)
    for label in range(classes):
        of_class = np.flatnonzero(labels == label)
        numbers[of_class] = np.arange(len(of_class))
    return numbers


def curve_text(curve: LearningCurve) -> str:
    """Would more pictures help?"""
    quarter, half, now = curve.accuracy
    low, high = curve.expected
    seen = f"{now:.1f}% with all pictures, {half:.1f}% with half of them, {quarter:.1f}% with a quarter"
    if not curve.would_help:
        return f"More pictures of the same kind would hardly help: {seen}."
    return f"More pictures would help: {seen}; twice as many might reach {low:.0f} to {high:.0f}%."


def weakest(left_out: LeftOut, names: Sequence[str], most: int = 3) -> list[str]:
    """The classes that are recognised least often."""
    counts = left_out.confusion
    shares = np.diagonal(counts) / np.maximum(counts.sum(axis=1), 1)
    order = [int(label) for label in np.argsort(shares, kind="stable") if counts[label].sum() and shares[label] < 1]
    return [names[label] for label in order[:most]]
