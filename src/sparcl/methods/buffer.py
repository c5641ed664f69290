"""Buffers of past samples, in bounded memory. Images are kept as they came, and are augmented anew at every read.

ReservoirBuffer   a uniform random sample of everything presented so far (Vitter, 1985): the n-th presented sample
                  enters with probability capacity / n, in the place of a random earlier one
TaskwiseBuffer    filled when a task ends, with the samples that a method chooses
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparcl.data import Augmentation, Samples
from sparcl.generators import Generators
from sparcl.methods.batch import Batch
from sparcl.network import Logits

_CONTENTS = ("images", "labels", "tasks", "logits")


@dataclass(frozen=True)
class Replay:
    """Samples drawn from the buffer, augmented; `logits` are those stored when the samples entered."""

    images: NDArray[np.float32]
    labels: NDArray[np.int64]
    tasks: NDArray[np.int64]
    logits: Logits


class RehearsalBuffer(ABC):
    """What all buffers share: the memory, drawing from it, and its state."""

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
        self.resting = False  # still collects, but is not rehearsed from
        self.images = np.zeros((capacity, *image_shape), np.uint8)
        self.labels = np.zeros(capacity, np.int64)
        self.tasks = np.zeros(capacity, np.int64)
        self.logits = np.zeros((capacity, classes if keep_logits else 0), np.float32)
        self._classes = classes
        self._augmentation = augmentation
        self._generators = generators

    @abstractmethod
    def __len__(self) -> int: ...

    def __bool__(self) -> bool:
        """Whether there is something to rehearse."""
        return len(self) > 0 and not self.resting

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
        return {name: getattr(self, name)[filled] for name in _CONTENTS}

    def restore(self, state: dict[str, NDArray[Any]], task: int) -> None:
        """`task`: the last one whose samples can be here."""
        for name in _CONTENTS:
            held = getattr(self, name)
            if state[name].dtype != held.dtype or state[name].shape != (len(self), *held.shape[1:]):
                raise ValueError("the buffer does not hold what it should")
            held[: len(self)] = state[name]
        if (self.labels < 0).any() or (self.labels >= self._classes).any():
            raise ValueError("the buffer holds labels that the stream does not have")
        if (self.tasks < 0).any() or (self.tasks > task).any():
            raise ValueError("the buffer holds samples of tasks that have not been learned")


class ReservoirBuffer(RehearsalBuffer):
    seen = 0  # samples presented so far

    def __len__(self) -> int:
        return min(self.seen, self.capacity)

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

    def state(self) -> dict[str, NDArray[Any]]:
        return super().state() | {"seen": np.array([self.seen])}

    def restore(self, state: dict[str, NDArray[Any]], task: int) -> None:
        self.seen = int(state["seen"][0])
        if not 0 <= self.seen < 2**53:
            raise ValueError("the buffer has seen an impossible number of samples")
        super().restore(state, task)


class TaskwiseBuffer(RehearsalBuffer):
    filled = 0

    def __len__(self) -> int:
        return self.filled

    def append(self, samples: Samples, task: int, logits: Logits | None = None) -> None:
        """Put samples behind those that are there, with their logits where the buffer keeps logits."""
        new = slice(self.filled, self.filled + len(samples))
        if new.stop > self.capacity:
            raise ValueError(f"{new.stop} samples do not fit into a buffer of {self.capacity}")
        self.images[new] = samples.originals(slice(None))
        self.labels[new], self.tasks[new] = samples.labels, task
        if logits is not None:
            self.logits[new] = logits
        self.filled = new.stop

    def keep_first(self, count: int, groups: NDArray[np.int64]) -> None:
        """Of each group of samples (its task, its class) keep the first `count`, in the order in which they came."""
        groups = groups[: self.filled]
        first = [np.flatnonzero(groups == group)[:count] for group in np.unique(groups)]
        kept = np.sort(np.concatenate([np.empty(0, np.int64), *first]))
        for name in _CONTENTS:
            getattr(self, name)[: len(kept)] = getattr(self, name)[kept]
        self.filled = len(kept)

    def state(self) -> dict[str, NDArray[Any]]:
        return super().state() | {"filled": np.array([self.filled])}

    def restore(self, state: dict[str, NDArray[Any]], task: int) -> None:
        self.filled = int(state["filled"][0])
        if not 0 <= self.filled <= self.capacity:
            raise ValueError("the buffer holds more than it can")
        super().restore(state, task)
