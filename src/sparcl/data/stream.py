"""What a learner sees: a stream of tasks, each a selection of images from a store that is never copied."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparcl.data.augmentation import Augmentation


@dataclass(frozen=True)
class Samples:
    """A selection of images from a store; several selections share one (usually memory-mapped) store."""

    images: NDArray[np.uint8]
    """The whole store, [stored, channels, height, width], C-contiguous; it may be read-only."""
    positions: NDArray[np.int64]
    """Where in the store each image of this selection lies."""
    labels: NDArray[np.int64]
    """The label of each image of this selection: the network's output index, its class's place in the stream."""

    def __len__(self) -> int:
        return len(self.positions)

    def select(self, chosen: NDArray[np.integer] | NDArray[np.bool_] | Sequence[int] | slice) -> "Samples":
        """The part of this selection named by indices (or a mask) into this selection."""
        index = _as_index(chosen)
        return Samples(self.images, self.positions[index], self.labels[index])

    def originals(self, chosen: NDArray[np.integer] | NDArray[np.bool_] | Sequence[int] | slice) -> NDArray[np.uint8]:
        """Copies of the chosen images as they are stored, without augmentation."""
        return np.ascontiguousarray(self.images[self.positions[_as_index(chosen)]])


def _as_index(
    chosen: NDArray[np.integer] | NDArray[np.bool_] | Sequence[int] | slice,
) -> NDArray[np.integer] | NDArray[np.bool_] | slice:
    # An empty list would otherwise become a float array, which NumPy refuses as an index.
    return chosen if isinstance(chosen, slice | np.ndarray) else np.asarray(chosen, dtype=np.int64)


@dataclass(frozen=True)
class Task:
    """One step of the stream: new classes, whose labels follow on from those of the task before."""

    index: int
    classes: range
    train: Samples
    test: Samples
    validation: Samples | None


@dataclass(frozen=True)
class Stream:
    """A dataset cut into tasks: new classes in each of them, or in each of them all classes in another domain."""

    name: str
    class_names: tuple[str, ...]
    """In stream order: the name of label i is class_names[i]."""
    image_shape: tuple[int, int, int]
    tasks: tuple[Task, ...]
    augmentation: Augmentation
    domains: tuple[str, ...] = ()
    """In Domain-IL: what each task's images have been through. Empty: every task brings new classes."""

    @property
    def classes(self) -> int:
        """How many classes the stream holds over all its tasks: the number of outputs a network needs."""
        return len(self.class_names)

    def describe(self) -> dict[str, Any]:
        """What a reader of a run must know about its data, without the images."""
        tasks = [
            {"classes": [task.classes.start, task.classes.stop], "train": len(task.train), "test": len(task.test)}
            for task in self.tasks
        ]
        return {
            "name": self.name,
            # The name of a folder need not be text; what is not becomes a question mark.
            "class_names": [name.encode(errors="replace").decode() for name in self.class_names],
            "image_shape": list(self.image_shape),
            "domains": list(self.domains),
            "tasks": tasks,
        }

    @cached_property
    def fingerprint(self) -> str:
        """Tells whether a stream is still the same: classes, images of each task, and some of the pixels."""
        digest = hashlib.sha256(repr((self.class_names, self.image_shape)).encode())
        for task in self.tasks:
            for samples in (task.train, task.test):
                digest.update(samples.positions.tobytes())
                digest.update(samples.labels.tobytes())
                digest.update(samples.originals(slice(None, None, max(1, len(samples) // 16))).tobytes())
        return digest.hexdigest()
