"""What a network says about a picture."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparcl.errors import SparclError

UNKNOWN = "unknown"


@dataclass(frozen=True)
class Prediction:
    """The classes of a picture, the likeliest first, with how sure the network is of each; and how long it took.

    `unknown`: the picture resembles none of them; then the likeliest class is only the least unlike. `familiarity` says
    how far from that it is, on a scale of the learner's own: larger is more like what was learned.
    """

    classes: tuple[str, ...]
    confidences: tuple[float, ...]
    milliseconds: float
    unknown: bool = False
    familiarity: float | None = None

    @property
    def name(self) -> str:
        """The likeliest class, or "unknown"."""
        return UNKNOWN if self.unknown else self.classes[0]

    @property
    def confidence(self) -> float:
        """How sure the network is of it, from 0 to 1."""
        return self.confidences[0]


def ranked(logits: NDArray[np.float32], classes: Sequence[str], milliseconds: float) -> list[Prediction]:
    """A prediction for each row of logits, all of which together took so long."""
    if not np.isfinite(logits).all():
        raise SparclError("What the network says is not a number: it was trained too fast, or is damaged.")
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    each = milliseconds / len(logits)
    predictions = []
    for shares in shifted / shifted.sum(axis=1, keepdims=True):
        order = np.argsort(-shares, kind="stable")
        confidences = tuple(float(shares[label]) for label in order)
        predictions.append(Prediction(tuple(classes[label] for label in order), confidences, each))
    return predictions
