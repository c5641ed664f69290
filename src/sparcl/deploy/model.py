"""Predicting with a model file. It needs NumPy and the engine, nothing else.

model = sparcl.load("digits.sparcl")
model.classes                    # their names
model.predict(pixels)            # uint8 [n, channels, height, width], or float32 that is normalised already
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparcl import _engine
from sparcl.errors import SparclError


class Model:
    """A network that only predicts: sparse, with its batch normalisations folded into the weights."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            self._model = _engine.Model(os.fsencode(self.path))
        except _engine.ModelError as error:
            raise SparclError(f"{self.path} is not a usable model: {error}.") from error
        self.classes: tuple[str, ...] = tuple(self._model.classes)
        self.image_shape: tuple[int, int, int] = self._model.input_shape
        self.precision: str = self._model.precision
        self.mean: tuple[float, ...] = tuple(self._model.mean)
        self.std: tuple[float, ...] = tuple(self._model.deviation)

    def predict(self, images: NDArray[Any], threads: int | None = None) -> NDArray[np.float32]:
        """Logits [n, classes] of images [n, channels, height, width], or [classes] of a single one.

        uint8 images are pixels from 0 to 255 and are normalised as in training; float32 images must be already.
        """
        images = np.asarray(images)
        single = images.ndim == 3
        batch = np.ascontiguousarray(images[None] if single else images)
        if batch.ndim != 4 or batch.shape[1:] != self.image_shape or batch.dtype not in (np.uint8, np.float32):
            wanted = " x ".join(map(str, self.image_shape))
            raise SparclError(
                f"The model takes images of {wanted} (channels, height, width), uint8 or float32, one or a batch of "
                f"them; these are {' x '.join(map(str, images.shape))}, {images.dtype}."
            )
        if threads is not None and not 1 <= threads <= _engine.MAX_THREADS:
            raise SparclError(f"{threads} threads cannot predict; choose between 1 and {_engine.MAX_THREADS}.")
        logits = np.empty((len(batch), len(self.classes)), np.float32)
        run = self._model.predict_pixels if batch.dtype == np.uint8 else self._model.predict
        run(batch, logits, _engine.threads() if threads is None else threads)
        return logits[0] if single else logits


def load(path: str | os.PathLike[str]) -> Model:
    """Read a model file. Whatever is wrong with it is said in one line (SparclError)."""
    return Model(path)
