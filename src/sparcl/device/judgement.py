"""How well a learner does, on pictures it was never trained on, and on those it rehearses."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparcl.checked import check
from sparcl.data import Samples
from sparcl.learning.loop import DivergedError
from sparcl.methods import Method, ReservoirBuffer


@dataclass(frozen=True)
class Judgement:
    held_out: dict[str, tuple[int, int]]  # by class: how many were right, of how many
    buffer: tuple[int, int] | None

    @property
    def accuracy(self) -> float | None:
        """In percent, over all held-out pictures; None if there are none."""
        right, count = (
            (sum(numbers) for numbers in zip(*self.held_out.values(), strict=True)) if self.held_out else (0, 0)
        )
        return 100 * right / count if count else None

    def of(self, names: list[str]) -> "Judgement":
        return Judgement({name: self.held_out[name] for name in names if name in self.held_out}, None)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(content: Any) -> "Judgement":
        return check(Judgement, content)


def judge(
    method: Method,
    images: NDArray[np.uint8],
    labels: NDArray[np.int64],
    classes: tuple[str, ...],
    buffer: ReservoirBuffer | None,
    poll: Callable[[], None],
) -> Judgement:
    """Right answers among all classes known. `poll` may raise to break it off."""

    def right(samples: Samples) -> NDArray[np.bool_]:
        if not len(samples):
            return np.zeros(0, bool)

        def answers(batch: NDArray[np.float32]) -> NDArray[np.int64]:
            poll()
            logits = method.network.predict(batch)[:, : len(classes)]
            if not np.isfinite(logits).all():
                raise DivergedError("What the network says is no longer a number: training diverged.")
            return np.asarray(logits.argmax(axis=1))

        return np.asarray(method.compute(answers, samples) == samples.labels)

    found = right(Samples(images, np.arange(len(labels)), labels))
    held_out = {
        name: (int(found[labels == label].sum()), int((labels == label).sum()))
        for label, name in enumerate(classes)
        if (labels == label).any()
    }
    rehearsed = None
    if buffer is not None:
        held = Samples(buffer.images, np.arange(len(buffer)), buffer.labels[: len(buffer)])
        rehearsed = (int(right(held).sum()), len(held))
    return Judgement(held_out, rehearsed)
