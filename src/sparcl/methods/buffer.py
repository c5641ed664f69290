"""The rehearsal buffer: a uniform random sample of everything presented so far, in bounded memory.

Reservoir sampling (Vitter, 1985): the n-th presented sample enters with probability capacity / n, in the place of a
random earlier one. Images are kept as they came, un-augmented, and are augmented anew at every read.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparcl.data import Augmentation
from sparcl.generators import Generators
from sparcl.methods.batch import Batch
from sparcl.network import Logits


@dataclass(frozen=True)
class Replay:
    """Samples drawn from the buffer, augmented; `logits` are those stored when the samples entered."""

    images: NDArray[np.float32]
    labels: NDArray[np.int64]
    tasks: NDArray[np.int64]
    logits: Logits


class ReservoirBuffer:
    def __init__(
        self,
        capacity: int,
        image_shape: tuple[int, ...],
        classes: int,
        augmentation: Augmentation,
        generators: Generators,
        keep_logits: bool,
    ) -> None:
        self.capacity = capacity
        self.seen = 0
        self.resting = False  # still collects, but is not rehearsed from
        self.images = np.zeros((capacity, *image_shape), np.uint8)
        self.labels = np.zeros(capacity, np.int64)
        self.tasks = np.zeros(capacity, np.int64)
        self.logits = np.zeros((capacity, classes if keep_logits else 0), np.float32)
        self._classes = classes
        self._augmentation = augmentation
        self._generators = generators

    def __len__(self) -> int:
        return min(self.seen, self.capacity)

    def __bool__(self) -> bool:
        """Whether there is something to rehearse."""
        return len(self) > 0 and not self.resting

    def add(self, batch: Batch, logits: Logits | None = None) -> None:
        """Present a batch's samples, with the logits of their training forward where the buffer keeps logits."""
        numbers = self.seen + np.arange(len(batch))
        draws = self._generators["reservoir"].integers(0, numbers + 1)
        slots = np.where(numbers < self.capacity, numbers, draws)
        self.seen += len(batch)
        originals = batch.originals()
        # In order: a later sample of the batch may take the place of an earlier one.
        for sample, slot in enumerate(slots):
            if slot < self.capacity:
                self.images[slot] = originals[sample]
                self.labels[slot] = batch.labels[sample]
                self.tasks[slot] = batch.task
                if logits is not None:
                    self.logits[slot] = logits[sample]

    def draw(self, count: int, generator: np.random.Generator | None = None) -> Replay:
        """A random selection without repetition, of at most `count` samples.

        A draw for another purpose than training brings its own generator, so that training's draws stay the same.
        """
        chosen = (generator or self._generators["replay"]).choice(len(self), min(count, len(self)), replace=False)
        augmenting = generator or self._generators["replay_augmentation"]
        images = self._augmentation.train(self.images, chosen, augmenting)
        return Replay(images, self.labels[chosen], self.tasks[chosen], self.logits[chosen])

    def state(self) -> dict[str, NDArray[Any]]:
        filled = slice(len(self))
        return {
            "images": self.images[filled],
            "labels": self.labels[filled],
            "tasks": self.tasks[filled],
            "logits": self.logits[filled],
            "seen": np.array([self.seen]),
        }

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        self.seen = int(state["seen"][0])
        if len(state["labels"]) != len(self) or not 0 <= self.seen < 2**53:
            raise ValueError("the buffer does not hold what it should")
        for name in ("images", "labels", "tasks", "logits"):
            getattr(self, name)[: len(self)] = state[name]
        if (self.labels < 0).any() or (self.labels >= self._classes).any():
            raise ValueError("the buffer holds labels that the stream does not have")
