"""A batch of training samples, as a method sees it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparcl.data import Samples


@dataclass(frozen=True)
class Batch:
    """Augmented images with their labels; `chosen` says which of the task's samples they are."""

    images: NDArray[np.float32]
    labels: NDArray[np.int64]
    task: int
    classes: range  # of its task
    samples: Samples
    chosen: NDArray[np.int64]
    progress: float = 0.0  # of the task's steps so many are done: from 0 to below 1

    def __len__(self) -> int:
        return len(self.labels)

    def originals(self) -> NDArray[np.uint8]:
        """The images as they are stored, before any augmentation."""
        return self.samples.originals(self.chosen)
