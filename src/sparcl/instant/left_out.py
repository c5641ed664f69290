"""What a learner would say about each of its pictures if it had not learned it (`discriminant.leave_one_out`)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparcl.instant.calibration import Calibration
from sparcl.instant.discriminant import Discriminant, leave_one_out
from sparcl.instant.kept import Kept


@dataclass(frozen=True)
class LeftOut:
    """Of each picture that could be left out: those of classes with one picture could not."""

    places: NDArray[np.int64]  # among the pictures that are kept
    labels: NDArray[np.int64]
    answers: NDArray[np.int64]
    confidences: NDArray[np.float64]  # in the answer
    own_confidences: NDArray[np.float64]  # in the class that the picture was learned as
    classes: int

    @staticmethod
    def of(kept: Kept, calibration: Calibration) -> "LeftOut":
        learned = np.flatnonzero(kept.learned)
        labels, classes = kept.labels[learned], len(kept.classes)
        judged = np.bincount(labels, minlength=classes)[labels] > 1
        if classes < 2 or not judged.any():
            none = np.zeros(0, np.int64)
            return LeftOut(none, none, none, np.zeros(0), np.zeros(0), classes)
        features = kept.features[learned].astype(np.float64)
        odds = leave_one_out(Discriminant.of(features, labels, classes), features, labels)[judged]
        shares, labels = calibration.confidences(odds), labels[judged]
        rows, answers = np.arange(len(labels)), odds.argmax(axis=1)
        return LeftOut(learned[judged], labels, answers, shares[rows, answers], shares[rows, labels], classes)

    def only(self, chosen: NDArray[np.bool_]) -> "LeftOut":
        """Some of the pictures that are kept."""
        some = chosen[self.places]
        return LeftOut(
            self.places[some],
            self.labels[some],
            self.answers[some],
            self.confidences[some],
            self.own_confidences[some],
            self.classes,
        )

    @property
    def confusion(self) -> NDArray[np.int64]:
        """[true class, answer]: how many pictures."""
        counts = np.zeros((self.classes, self.classes), np.int64)
        np.add.at(counts, (self.labels, self.answers), 1)
        return counts
