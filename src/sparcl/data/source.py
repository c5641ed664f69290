"""What a source of images has to provide; docs/add-a-dataset.md shows a complete one."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sparcl.data.tree import Tree
from sparcl.errors import SparclError

Progress = Callable[[str, int, int], None]
"""Called as progress(what, done, total) while something long goes on."""

Domains = Literal["permuted", "rotated"]

Block = tuple[NDArray[np.uint8], NDArray[np.int64]]
"""Some images [n, channels, height, width] and their labels [n]."""


@dataclass(frozen=True)
class DecodingOptions:
    """What a person may choose about decoding; part of the cache's fingerprint."""

    image_size: int | None = None
    test_share: float = 0.2


@dataclass(frozen=True)
class Split:
    """The training or the test images, handed over block by block so that they need not fit into memory."""

    count: int
    blocks: Iterator[Block]


@dataclass(frozen=True)
class Contents:
    """Everything a source holds. A label is the place of the class in class_names."""

    class_names: tuple[str, ...]
    image_shape: tuple[int, int, int]
    train: Split
    test: Split


class Source(ABC):
    """One dataset: where its files are and how they become images."""

    name: ClassVar[str]
    """What a person types."""
    title: ClassVar[str]
    """What a person reads."""
    description: ClassVar[str]
    classes: ClassVar[int | None] = None
    """How many classes the whole dataset has; None: that depends on the files."""
    image_size: ClassVar[int | None] = None
    """The side of its square images in pixels; None: a person may choose it."""
    classes_per_task: ClassVar[int]
    domains: ClassVar[Domains | None] = None
    """How the tasks differ if they all have the same classes; None: every task has new classes."""
    flip: ClassVar[bool]
    """Whether a mirrored training image still shows its class."""
    padding: ClassVar[int | None] = None
    """How far a training image may be shifted; None means an eighth of its height."""
    mean: ClassVar[tuple[float, ...] | None] = None
    """The mean of each channel from 0 to 1; None means it is computed from the training images."""
    std: ClassVar[tuple[float, ...] | None] = None
    """The standard deviation of each channel; given together with the mean."""

    def files(self, root: Path | None) -> Tree | None:
        """The same as open, with ~ understood and whatever the file system objects to said in one line."""
        try:
            return self.open(root.expanduser() if root else None)
        except (OSError, RuntimeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise SparclError(f"{root or self.title} could not be read: {reason}.") from error

    @abstractmethod
    def open(self, root: Path | None) -> Tree | None:
        """The files below root, or an error that says what is missing. None: the images come with the package."""

    @abstractmethod
    def read(self, tree: Tree | None, options: DecodingOptions) -> Contents:
        """Start decoding; the work is done while the blocks of the splits are consumed."""
