"""Whether a trained upper part is kept: pictures that it was never trained on decide.

They are chosen by their content, so the same picture is never trained on, in any session. Two discriminants learn from
the other pictures, one with the features from before, one with the new ones, and both are asked about these.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparcl.device.held_out import select
from sparcl.instant.discriminant import Discriminant

HELD_OUT_SHARE = 0.15
MAX_HELD_OUT = 100  # of a class


@dataclass(frozen=True)
class Verdict:
    """How many of the `pictures` that were never trained on are recognised, before and after."""

    before: int
    after: int
    pictures: int

    @property
    def kept(self) -> bool:
        """Without pictures to judge by, nobody can say that it is not worse."""
        return self.pictures > 0 and self.after >= self.before


def held_out(digests: NDArray[np.uint64], labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which pictures are never trained on. Those with a label below 0 belong to no class and are not judged by."""
    held = np.zeros(len(labels), bool)
    learned = np.flatnonzero(labels >= 0)
    nothing = np.zeros(0, np.int64)
    held[learned] = select(
        digests[learned], labels[learned], HELD_OUT_SHARE, MAX_HELD_OUT, nothing.astype(np.uint64), nothing
    )
    return held


def judge_deepening(
    before: NDArray[Any], after: NDArray[Any], labels: NDArray[np.int64], held: NDArray[np.bool_]
) -> Verdict:
    """`before` and `after`: the features [pictures, features] of the same pictures."""
    known = np.unique(labels[(labels >= 0) & ~held])
    judged = held & np.isin(labels, known)
    place = np.searchsorted(known, labels[judged])
    learned = (labels >= 0) & ~held
    right = []
    for features in (before, after):
        rows = features.astype(np.float64)
        found = Discriminant.of(rows[learned], np.searchsorted(known, labels[learned]), len(known))
        right.append(int((found.log_odds(rows[judged]).argmax(axis=1) == place).sum()) if judged.any() else 0)
    return Verdict(right[0], right[1], int(judged.sum()))
