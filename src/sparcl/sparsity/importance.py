"""Continual importance of weights: how much a weight matters to the task at hand and to what the buffer remembers.

    CWI(w) = |w| + alpha |dL~(D_t)/dw| + beta |dL(M)/dw|          (CGI is the same without |w|)

L~ is the single-head cross-entropy on the current task, L the plain one on the buffer. Both gradients are means over
several batches, taken before any gradient mask, with batch statistics that leave the running ones untouched.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparcl.data import Samples, Task
from sparcl.methods import Loss, WithBuffer, cross_entropy
from sparcl.network import Images
from sparcl.sparsity.sparsifier import SparsifierContext

Gradients = dict[str, NDArray[Any]]  # of each sparse weight, at its active positions


def mean_gradients(
    context: SparsifierContext, names: Iterable[str], passes: Iterable[tuple[Images, Loss]]
) -> Gradients | None:
    """The mean over the passes of the loss's gradient at every active position; None if there are no passes."""
    network, parameters = context.network, context.network.parameters
    masked, parameters.updated = parameters.updated, {}
    pending = parameters.gradients.flat.copy() if parameters.gradients.flat.any() else 0.0
    parameters.gradients.flat[...] = 0.0
    count = 0
    for images, loss in passes:
        logits, passed = network.forward(images, train=True, momentum=0.0)
        network.backward(passed, loss(logits)[1])
        context.count_importance(len(images))
        count += 1
    found = {name: parameters.gradients[name] / count for name in names} if count else None
    parameters.gradients.flat[...] = pending
    parameters.updated = masked
    network.release_memory()
    return found


class Probe:
    """Draws the batches on which importance is measured; from its own generator, so training is not disturbed."""

    def __init__(self, context: SparsifierContext) -> None:
        self._context = context
        self._generator = context.generators["importance"]

    def current(self, task: Task, samples: Samples, batches: int, single_head: bool) -> Iterator[tuple[Images, Loss]]:
        """Augmented batches of the current task with their (single-head) cross-entropy."""
        augmentation = self._context.method.context.augmentation
        for _ in range(batches):
            size = min(self._context.batch_size, len(samples))
            chosen = self._generator.choice(len(samples), size, replace=False)
            images = augmentation.train(samples.images, samples.positions[chosen], self._generator)
            yield images, cross_entropy(samples.labels[chosen], task.classes if single_head else None)

    def has_buffer(self) -> bool:
        method = self._context.method
        return isinstance(method, WithBuffer) and len(method.buffer) > 0

    def buffer(self, batches: int) -> Iterator[tuple[Images, Loss]]:
        """Batches from the rehearsal buffer with plain cross-entropy; none for a method without one, or empty."""
        method = self._context.method
        if not isinstance(method, WithBuffer) or not self.has_buffer():
            return
        for _ in range(batches):
            drawn = method.buffer.draw(method.context.replay_batch_size, self._generator)
            yield drawn.images, cross_entropy(drawn.labels)


def weighted_sum(names: Iterable[str], terms: Iterable[tuple[float, Gradients | None]]) -> Gradients:
    """sum of coefficient * |gradient|; terms that could not be measured are left out."""
    known = [(coefficient, gradients) for coefficient, gradients in terms if gradients is not None]
    return {
        name: np.sum([coefficient * np.abs(gradients[name]) for coefficient, gradients in known], axis=0)
        for name in names
    }
