"""What happens to an image between the store and the network; the pixel work is done by the native engine.

np.random is quoted in annotations, here and in the network room: naming it loads it, and predicting does without.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sparcl import _engine


@dataclass(frozen=True)
class Augmentation:
    """Training images are padded with black, cropped at random, mirrored at random and normalised.

    Test images are only normalised. Mean and standard deviation are for each channel, on a scale from 0 to 1.
    """

    padding: int
    flip: bool
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def train(
        self, images: NDArray[np.uint8], positions: NDArray[np.int64], generator: "np.random.Generator"
    ) -> NDArray[np.float32]:
        """Augmented float32 copies of images[positions]; every random choice is drawn from the generator."""
        count = len(positions)
        shifts = generator.integers(-self.padding, self.padding + 1, size=(count, 2), dtype=np.int32)
        flips = generator.integers(0, 2, size=count, dtype=np.uint8) if self.flip else np.zeros(count, dtype=np.uint8)
        return self._run(images, positions, shifts, flips)

    def test(self, images: NDArray[np.uint8], positions: NDArray[np.int64]) -> NDArray[np.float32]:
        """Normalised float32 copies of images[positions]."""
        count = len(positions)
        return self._run(images, positions, np.zeros((count, 2), dtype=np.int32), np.zeros(count, dtype=np.uint8))

    @cached_property
    def _pixel_scale(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The engine works on pixel values, so mean and 1 / std are brought to a scale from 0 to 255."""
        mean = np.asarray(self.mean, dtype=np.float64) * 255.0
        scale = 1.0 / (255.0 * np.asarray(self.std, dtype=np.float64))
        return mean.astype(np.float32), scale.astype(np.float32)

    def _run(
        self,
        images: NDArray[np.uint8],
        positions: NDArray[np.int64],
        shifts: NDArray[np.int32],
        flips: NDArray[np.uint8],
    ) -> NDArray[np.float32]:
        mean, scale = self._pixel_scale
        output = np.empty((len(positions), *images.shape[1:]), dtype=np.float32)
        _engine.augment(images, np.ascontiguousarray(positions, dtype=np.int64), shifts, flips, mean, scale, output)
        return output
