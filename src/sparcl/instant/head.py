"""What predicting needs of a learner with a backbone, and all that predicting loads of its state."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparcl.checked import check
from sparcl.instant.calibration import Calibration
from sparcl.instant.kept import Kept
from sparcl.tensor_files import State, Tensors

FORMAT = 1


@dataclass(frozen=True)
class Head:
    """What predicting needs, in the precision it is stored with."""

    weight: NDArray[np.float32]
    bias: NDArray[np.float32]
    means: NDArray[np.float32]
    calibration: Calibration

    @staticmethod
    def of(kept: Kept, unknown: float, judged: NDArray[np.bool_] | None = None) -> "Head":
        """A function of the pictures alone. `judged`: those to calibrate by, if not all."""
        from sparcl.instant.calibration import calibrate
        from sparcl.instant.discriminant import Discriminant

        learned = kept.learned
        features, labels = kept.features[learned].astype(np.float64), kept.labels[learned]
        if not len(labels):
            none = np.zeros((0, features.shape[1]), np.float32)
            return Head(none, np.zeros(0, np.float32), none, Calibration())
        found = Discriminant.of(features, labels, len(kept.classes))
        calibration = calibrate(found, features, labels, unknown, judged[learned] if judged is not None else None)
        weight, bias, means = (array.astype(np.float32) for array in (found.weight, found.bias, found.means))
        return Head(weight, bias, means, calibration)

    def to_tensors(self) -> Tensors:
        return {"head.weight": self.weight, "head.bias": self.bias, "head.means": self.means}

    @staticmethod
    def from_tensors(tensors: Mapping[str, NDArray[Any]], state: State, width: int) -> "Head":
        """Checked: raises ValueError or KeyError for anything that no learner has written."""
        count = len(state["classes"])
        weight, bias, means = (tensors[f"head.{name}"] for name in ("weight", "bias", "means"))
        for array, shape in ((weight, (count, width)), (bias, (count,)), (means, (count, width))):
            if array.dtype != np.float32 or array.shape != shape or not np.isfinite(array).all():
                raise ValueError("what it predicts with does not fit its classes")
        calibration = Calibration.from_json(state["calibration"])
        if len(calibration.right) != count or any(not 0 <= right <= of for right, of in calibration.right):
            raise ValueError("its calibration does not fit its classes")
        return Head(weight, bias, means, calibration)


@dataclass(frozen=True)
class About:
    """What a state says about itself, without its pictures."""

    classes: tuple[str, ...]
    backbone: str
    digest: str  # of the backbone's file
    size: int

    @staticmethod
    def from_json(state: State) -> "About":
        """Checked: raises ValueError, KeyError or TypeError for anything that no learner has written."""
        if state["format"] != FORMAT:
            raise ValueError(f"it has format {state['format']!r}, and this version reads format {FORMAT}")
        classes = check(tuple[str, ...], state["classes"])
        if len(set(classes)) != len(classes) or not all(name.isprintable() for name in classes):
            raise ValueError("the classes are no list of names")
        size = check(int, state["size"])
        if not 16 <= size <= 1024:
            raise ValueError("its pictures have an impossible size")
        return About(classes, check(str, state["backbone"]), check(str, state["digest"]), size)
