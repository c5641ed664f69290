"""Whether a trained upper part is kept: pictures that it was never trained on decide.

A picture's content alone decides whether it is one of them, so it is in no session trained on, whatever other pictures
come and go. Two discriminants learn from the other pictures, one with the features from before, one with the new ones,
and both are asked about these.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparcl.errors import SparclError
from sparcl.instant.discriminant import Discriminant
from sparcl.wording import counted

HELD_OUT_SHARE = 0.15
MIN_HELD_OUT = 20  # of all together: fewer would say anything


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
    """Which pictures are never trained on. Those with a label below 0 belong to no class, and cannot judge."""
    return (labels >= 0) & (digests < np.uint64(HELD_OUT_SHARE * 2.0**64))


def check_enough(held: NDArray[np.bool_]) -> None:
    """Raises SparclError where too few pictures are held out to judge by."""
    if held.sum() < MIN_HELD_OUT:
        raise SparclError(
            f"There are too few pictures to learn deeply: {counted(len(held), 'picture')}, of which {held.sum()} would "
            f"judge what was learned from the others. About {round(MIN_HELD_OUT / HELD_OUT_SHARE, -1):.0f} are enough."
        )


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
