"""Predicting with a learner that has a backbone. Loads only what predicting needs."""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparcl.backbone import Backbone, find_backbone
from sparcl.data.pictures import centre_square
from sparcl.device.prediction import Prediction
from sparcl.errors import SparclError
from sparcl.instant.calibration import cosines_with
from sparcl.instant.features import FeatureExtractor
from sparcl.instant.head import About, Head
from sparcl.instant.kept import Kept
from sparcl.instant.upper_part import trained_parameters
from sparcl.tensor_files import State


class InstantPredictor:
    def __init__(self, tensors: Mapping[str, NDArray[Any]], state: State) -> None:
        self.description = About.from_json(state)
        if not self.description.classes:
            raise SparclError("The learner knows no class any more. Teach it one: sparcl learn LEARNER FOLDER")
        self.backbone = backbone_of(self.description)
        self.head = Head.from_tensors(tensors, state, self.backbone.features)
        self._features = extractor_of(self.backbone, self.description.size, tensors)
        self._denied = _Denied.of(tensors, self.description.classes, self.backbone.features)
        self.prepare = centre_square(self.description.size)
        self.batch = 1  # one at a time: see FeatureExtractor

    def predict(self, images: NDArray[np.uint8], always: bool = False) -> list[Prediction]:
        """Of pictures [n, 3, size, size]; the time is that of the network alone. `always`: never `unknown`."""
        return [self._predict(image, always) for image in images]

    def _predict(self, image: NDArray[np.uint8], always: bool) -> Prediction:
        start = time.perf_counter()
        features = self._features(image).astype(np.float64)[None]
        taken = 1e3 * (time.perf_counter() - start)
        return self.judged(features, always, taken)

    def judged(self, features: NDArray[np.float64], always: bool, milliseconds: float = 0.0) -> Prediction:
        """What features [1, n] of a picture mean."""
        classes, calibration = self.description.classes, self.head.calibration
        odds = features @ self.head.weight.T.astype(np.float64) + self.head.bias
        shares = calibration.confidences(odds)[0]
        familiar = calibration.familiarity(cosines_with(self.head.means.astype(np.float64), features), odds)[0]
        strange = calibration.threshold is not None and familiar < calibration.threshold
        allowed = np.ones(len(classes), bool)
        if self._denied is not None:
            allowed = ~self._denied.classes(features[0])
        order = np.argsort(np.where(allowed, -shares, 2 - shares), kind="stable")  # those that are denied come last
        return Prediction(
            tuple(classes[label] for label in order),
            tuple(float(shares[label]) for label in order),
            milliseconds,
            unknown=bool(strange or not allowed.any()) and not always,
            familiarity=float(familiar),
        )


class _Denied:
    """Pictures of which somebody said that they are not of a class. What resembles one of them more than any picture of
    that class is not of it either."""

    def __init__(self, kept: Kept) -> None:
        self._labels, self._count = kept.labels, len(kept.classes)
        rows = kept.features.astype(np.float64)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        self._rows = rows / np.where(lengths > 0, lengths, 1.0)

    @staticmethod
    def of(tensors: Mapping[str, NDArray[Any]], classes: tuple[str, ...], width: int) -> "_Denied | None":
        labels = tensors["kept.labels"]
        return _Denied(Kept.from_tensors(tensors, classes, width)) if (labels < 0).any() else None

    def classes(self, features: NDArray[np.float64]) -> NDArray[np.bool_]:
        cosines = self._rows @ features
        denied = np.zeros(self._count, bool)
        for label in range(self._count):
            against = cosines[self._labels == -1 - label]
            denied[label] = len(against) > 0 and against.max() >= cosines[self._labels == label].max()
        return denied


def backbone_of(about: About) -> Backbone:
    """The one that the pictures were learned with, and no other."""
    backbone = find_backbone(about.backbone)
    if backbone.digest != about.digest:
        raise SparclError(
            f"The backbone {about.backbone!r} has other weights here than those that were learned with "
            f"(their digest begins with {about.digest[:12]}, not {backbone.digest[:12]}). "
            "Import the right ones: sparcl backbone import FILE NAME"
        )
    return backbone


def extractor_of(backbone: Backbone, size: int, tensors: Mapping[str, NDArray[Any]]) -> FeatureExtractor:
    """With the upper part as it was trained, if it was."""
    upper = {name.removeprefix("upper."): tensors[name] for name in tensors if name.startswith("upper.")}
    return FeatureExtractor(backbone, size, trained_parameters(backbone, size, upper) if upper else None)
