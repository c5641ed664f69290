"""How sure a learner may be, and what it does not know: found from what it says about pictures it has not seen.

Each of its pictures is left out in turn (`discriminant.leave_one_out`), so none has to be kept away from learning.

    confidence    softmax(log odds / temperature); the temperature makes it come true on those pictures
    familiarity   how near the nearest class is, and how far ahead of the others; below a threshold that few of those
                  pictures miss, a picture is `unknown`
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparcl.checked import check
from sparcl.device.reliability import calibration_error
from sparcl.instant.discriminant import Discriminant, Labels, Real, leave_one_out

TEMPERATURES = np.exp(np.linspace(-3, 8, 441))
# Fifty pictures say little about the temperature. It has been about this, divided by the root of how many there are,
# for all photos tried; the guess counts as much as so many pictures.
USUAL_TEMPERATURE, GUESS_WORTH = 350.0, 40.0


@dataclass(frozen=True)
class Calibration:
    temperature: float = 1.0
    nearness: tuple[float, float] = (0.0, 1.0)  # mean and deviation of the cosine with the nearest class
    lead: tuple[float, float] = (0.0, 1.0)  # the same of how far its log odds are ahead of the average
    threshold: float | None = None  # of familiarity; None: too few pictures to say what is unknown
    right: tuple[tuple[int, int], ...] = ()  # by class: how many were right, of how many that could be left out
    error: float | None = None  # expected calibration error on them, from 0 to 1

    def confidences(self, log_odds: Real) -> Real:
        return softmax(log_odds / self.temperature)

    def familiarity(self, cosines: Real, log_odds: Real) -> Real:
        return _scaled(cosines.max(axis=1), self.nearness) + _scaled(_lead(log_odds), self.lead)

    @staticmethod
    def from_json(content: Any) -> "Calibration":
        found = check(Calibration, content)
        numbers = (found.temperature, *found.nearness, *found.lead, found.threshold or 0.0, found.error or 0.0)
        if not all(map(math.isfinite, numbers)) or min(found.temperature, found.nearness[1], found.lead[1]) <= 0:
            raise ValueError("its calibration is impossible")
        return found


def calibrate(
    found: Discriminant, features: Real, labels: Labels, unknown: float, by: NDArray[np.bool_] | None = None
) -> Calibration:
    """`unknown`: the share of the left-out pictures that may be called so; `by`: these pictures, if not by all."""
    classes = len(found.means)
    counts = np.bincount(labels, minlength=classes)
    judged = counts[labels] > 1 if by is None else (counts[labels] > 1) & by
    if not judged.any() or classes < 2:
        return Calibration(USUAL_TEMPERATURE / math.sqrt(len(features)), right=((0, 0),) * classes)
    odds = leave_one_out(found, features, labels)[judged]
    near = left_out_cosines(found, features, labels)[judged]
    labels = labels[judged]
    temperature = _temperature(odds, labels, len(features), GUESS_WORTH if by is None else 0.0)
    ok = odds.argmax(axis=1) == labels
    cosines, lead = near.max(axis=1), _lead(odds)
    scales = Calibration(nearness=_scale(cosines), lead=_scale(lead))
    familiar = scales.familiarity(near, odds)
    # What is seen less often than once in so many pictures is not seen at all in fewer.
    slack = float(familiar.std()) / math.sqrt(len(familiar))
    return Calibration(
        temperature,
        scales.nearness,
        scales.lead,
        float(np.quantile(familiar, unknown)) - slack if unknown > 0 else None,
        tuple((int(ok[labels == label].sum()), int((labels == label).sum())) for label in range(classes)),
        calibration_error(softmax(odds / temperature).max(axis=1), ok),
    )


def left_out_cosines(found: Discriminant, features: Real, labels: Labels) -> Real:
    """Of each picture with the mean of each class, its own one without it."""
    rows, counts = np.arange(len(features)), np.bincount(labels).astype(np.float64)[labels]
    cosines = cosines_with(found.means, features)
    own = found.means[labels] * counts[:, None] - features
    cosines[rows, labels] = np.where(counts > 1, (unit(features) * unit(own)).sum(axis=1), cosines[rows, labels])
    return cosines


def cosines_with(means: Real, features: Real) -> Real:
    return np.asarray(unit(features) @ unit(means).T)


def unit(rows: Real) -> Real:
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1.0))


def softmax(log_odds: Real) -> Real:
    powers = np.exp(log_odds - log_odds.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _temperature(odds: Real, labels: Labels, pictures: int, worth: float) -> float:
    """`worth` of the guess, which is about the features of a backbone as it came."""
    guess = math.log(USUAL_TEMPERATURE / math.sqrt(pictures))
    losses = [
        _surprise(odds / temperature, labels) + worth * (math.log(temperature) - guess) ** 2 / 2
        for temperature in TEMPERATURES
    ]
    return float(TEMPERATURES[int(np.argmin(losses))])


def _surprise(logits: Real, labels: Labels) -> float:
    most = logits.max(axis=1)
    right = logits[np.arange(len(labels)), labels]
    return float((most + np.log(np.exp(logits - most[:, None]).sum(axis=1)) - right).sum())


def _lead(log_odds: Real) -> Real:
    return np.asarray(log_odds.max(axis=1) - log_odds.mean(axis=1))


def _scale(values: Real) -> tuple[float, float]:
    deviation = float(values.std())
    return float(values.mean()), deviation if deviation > 0 else 1.0


def _scaled(values: Real, scale: tuple[float, float]) -> Real:
    return (values - scale[0]) / scale[1]
