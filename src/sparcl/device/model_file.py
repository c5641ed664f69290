"""Predicting pictures with a model file, as with a learner. Loads only what predicting needs."""

import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sparcl import _engine
from sparcl.data.pictures import centre_fit
from sparcl.deploy.model import load
from sparcl.device.prediction import Prediction, ranked
from sparcl.errors import SparclError

GREY = (19595, 38470, 7471)  # how bright red, green and blue look, in shares of 65536


class FilePredictor:
    def __init__(self, path: Path) -> None:
        self.model = load(path)
        self._channels, height, width = self.model.image_shape
        if self._channels not in (1, 3):
            raise SparclError(f"{path} takes images of {self._channels} channels, not pictures.")
        self.prepare = centre_fit(width, height)
        self.batch = max(1, _engine.lanes())

    def predict(self, images: NDArray[np.uint8], always: bool = False) -> list[Prediction]:
        """Of RGB pictures [n, 3, height, width]. It always names a class."""
        start = time.perf_counter()
        logits = self.model.predict(images if self._channels == 3 else _grey(images))
        return ranked(logits, self.model.classes, 1e3 * (time.perf_counter() - start))


def _grey(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    brightness = np.tensordot(np.array(GREY), images.astype(np.int64), axes=(0, 1))
    return np.ascontiguousarray(((brightness + 0x8000) >> 16).astype(np.uint8)[:, None])
