"""What is measured: a network and a batch of random images."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sparcl.errors import SparclError
from sparcl.graph import Graph, build_model
from sparcl.network import Images

Kind = Literal["train", "infer"]

CHANNELS = 3
LEARNING_RATE = 0.03


@dataclass(frozen=True)
class Workload:
    """Two sides with the same workload do the same: the random numbers come from a fixed seed."""

    model: str = "resnet18"
    width: int = 64
    image_size: int = 32
    batch: int = 32
    classes: int = 10

    def graph(self) -> Graph:
        return build_model(self.model, (CHANNELS, self.image_size, self.image_size), self.classes, self.width)

    def images(self) -> Images:
        shape = (self.batch, CHANNELS, self.image_size, self.image_size)
        return np.random.default_rng(1).normal(size=shape).astype(np.float32)

    def labels(self) -> NDArray[np.int64]:
        return np.random.default_rng(2).integers(0, self.classes, self.batch)

    def samples(self, count: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Pixels and labels to train with."""
        random, shape = np.random.default_rng(0), (count, CHANNELS, self.image_size, self.image_size)
        return random.integers(0, 256, shape, dtype=np.uint8), random.integers(0, self.classes, count)

    def check(self, kind: Kind) -> None:
        """That there is such a network, and that it can be trained with such a batch."""
        tiny = [node.name for node in self.graph() if node.op.role == "norm" and node.shape[1:] == (1, 1)]
        if kind == "train" and self.batch == 1 and tiny:
            raise SparclError(
                f"A batch of one image cannot be normalised at {tiny[0]}, whose maps have a single pixel. "
                "Choose a larger batch or larger images."
            )

    def __str__(self) -> str:
        return f"{self.model} of width {self.width}, {self.batch} images of {self.image_size}x{self.image_size}"
