"""Features of a picture: what a frozen backbone says about it and its mirror image, as a row of whole numbers."""

import numpy as np
from numpy.typing import NDArray

from sparcl import _engine
from sparcl.backbone import Backbone
from sparcl.data.augmentation import Augmentation
from sparcl.errors import SparclError
from sparcl.network.folding import engine_nodes, fold
from sparcl.network.parameters import Parameters

Features = NDArray[np.int16]
SCALE = 32767  # of a feature that is 1, the length of the whole row


class FeatureExtractor:
    """One picture at a time, always: how many are computed at once decides the last bits of what comes out."""

    def __init__(self, backbone: Backbone, size: int, parameters: Parameters | None = None) -> None:
        """`parameters`: the backbone's own, unless it was trained further."""
        self.backbone, self.size = backbone, size
        parameters = backbone.parameters(size) if parameters is None else parameters
        nodes = fold(backbone.graph(size), parameters)[:-1]  # without the classifier
        self._model = _engine.Model.from_nodes(engine_nodes(nodes))
        self._normalise = Augmentation(0, False, backbone.mean, backbone.std)

    def __call__(self, image: NDArray[np.uint8]) -> Features:
        """Of one picture [3, size, size]."""
        views = np.ascontiguousarray(np.stack([image, image[:, :, ::-1]]))
        found = np.empty((2, self.backbone.features), np.float32)
        self._model.predict(self._normalise.test(views, np.arange(2)), found, _engine.threads())
        return whole(found)


def whole(views: NDArray[np.float32]) -> Features:
    """Views [n, features] of one picture: each as long as the others, their mean, of length SCALE."""
    rows = views.astype(np.float64)
    if not np.isfinite(rows).all():
        raise SparclError(
            "What the backbone says is not a number: it is not usable. Check it with: sparcl backbone check"
        )
    mean = _unit(_unit(rows).mean(axis=0))
    return np.rint(SCALE * mean).astype(np.int16)


def _unit(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    lengths = np.sqrt((rows * rows).sum(axis=-1, keepdims=True))
    return np.asarray(rows / np.where(lengths > 0, lengths, 1.0))
