"""Losses on logits: each knows its value and its derivative by the logits, which is all a network needs.

loss = cross_entropy(labels) + 0.1 * logit_mse(targets)
value, d_logits = loss(logits)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparcl.network import Logits

Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Loss:
    """A differentiable function of the logits; sums of losses and multiples by numbers are losses again."""

    evaluate: Callable[[Logits], tuple[float, Logits]]

    def __call__(self, logits: Logits) -> tuple[float, Logits]:
        return self.evaluate(logits)

    def __rmul__(self, factor: float) -> "Loss":
        def scaled(logits: Logits) -> tuple[float, Logits]:
            value, gradient = self(logits)
            return factor * value, factor * gradient

        return Loss(scaled)

    def __add__(self, other: "Loss") -> "Loss":
        def total(logits: Logits) -> tuple[float, Logits]:
            (value, gradient), (other_value, other_gradient) = self(logits), other(logits)
            return value + other_value, gradient + other_gradient

        return Loss(total)


def log_softmax(logits: Logits) -> Logits:
    shifted: Logits = logits - logits.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))


def cross_entropy(labels: Labels, classes: range | None = None) -> Loss:
    """Mean over the samples of -log softmax(logits)[label].

    With `classes` given it is the single-head loss: only these classes compete, all other logits are masked out.
    """

    def evaluate(logits: Logits) -> tuple[float, Logits]:
        rows = np.arange(len(labels))
        if classes is not None:
            masked = np.full_like(logits, -np.inf)
            masked[:, classes.start : classes.stop] = logits[:, classes.start : classes.stop]
            logits = masked
        log_probabilities = log_softmax(logits)
        gradient = np.exp(log_probabilities)
        gradient[rows, labels] -= 1
        gradient /= len(labels)
        return -float(log_probabilities[rows, labels].mean()), gradient

    return Loss(evaluate)


def logit_mse(targets: Logits) -> Loss:
    """Mean over samples and classes of the squared difference to remembered logits.

    Where a target is NaN nothing is remembered, because the class was not known yet: such entries are left out of the
    mean and get no gradient.
    """
    known = ~np.isnan(targets)
    if not known.all():
        return _known_logit_mse(targets, known)

    def evaluate(logits: Logits) -> tuple[float, Logits]:
        difference = logits - targets
        return float(np.mean(difference * difference)), difference * np.asarray(2 / difference.size, difference.dtype)

    return Loss(evaluate)


def _known_logit_mse(targets: Logits, known: NDArray[np.bool_]) -> Loss:
    count = int(known.sum())

    def evaluate(logits: Logits) -> tuple[float, Logits]:
        difference = np.where(known, logits - targets, np.zeros_like(logits))
        return float((difference * difference).sum() / count), difference * np.asarray(2 / count, logits.dtype)

    return Loss(evaluate)


def distillation(old_logits: Logits, classes: range, temperature: float) -> Loss:
    """Mean over the samples of the cross-entropy between softened outputs, old and new, over some of the classes."""
    chosen = slice(classes.start, classes.stop)
    targets = np.exp(log_softmax(old_logits[:, chosen] / temperature))

    def evaluate(logits: Logits) -> tuple[float, Logits]:
        log_probabilities = log_softmax(logits[:, chosen] / temperature)
        gradient = np.zeros_like(logits)
        gradient[:, chosen] = (np.exp(log_probabilities) - targets) / (temperature * len(logits))
        return -float((targets * log_probabilities).sum(axis=1).mean()), gradient

    return Loss(evaluate)


def sigmoid_cross_entropy(targets: Logits) -> Loss:
    """Mean over samples and the first classes of the binary cross-entropy; `targets` has a column for each of these."""

    def evaluate(logits: Logits) -> tuple[float, Logits]:
        z = logits[:, : targets.shape[1]]
        gradient = np.zeros_like(logits)
        gradient[:, : targets.shape[1]] = (sigmoid(z) - targets) / targets.size
        # log(1 + e^z) - z t, written so that nothing overflows
        values = np.maximum(z, 0) - z * targets + np.log1p(np.exp(-np.abs(z)))
        return float(values.mean()), gradient

    return Loss(evaluate)


def softmax_distance(old_logits: Logits) -> Loss:
    """Mean over the samples of the L2 distance between the probabilities now and those of remembered logits."""
    targets = np.exp(log_softmax(old_logits))

    def evaluate(logits: Logits) -> tuple[float, Logits]:
        probabilities = np.exp(log_softmax(logits))
        difference = probabilities - targets
        distances = np.sqrt((difference * difference).sum(axis=1, keepdims=True))
        # Where nothing differs the distance has no derivative, and there is nothing to be changed.
        direction = difference / np.where(distances > 0, distances, 1) / len(logits)
        along = (probabilities * direction).sum(axis=1, keepdims=True)
        return float(distances.mean()), probabilities * (direction - along)

    return Loss(evaluate)


def sigmoid(logits: Logits) -> Logits:
    return np.asarray(0.5 * (1 + np.tanh(0.5 * logits)))


def joined(*parts: tuple[int, Loss]) -> Loss:
    """One mean loss over a batch whose parts have losses of their own: (samples, loss) of each part, in order."""

    def evaluate(logits: Logits) -> tuple[float, Logits]:
        value, gradient, start = 0.0, np.zeros_like(logits), 0
        for count, loss in parts:
            part_value, part_gradient = loss(logits[start : start + count])
            share = count / len(logits)
            value += share * part_value
            gradient[start : start + count] = share * part_gradient
            start += count
        return value, gradient

    return Loss(evaluate)


def stacked(*parts: tuple[int, Loss]) -> Loss:
    """The sum of losses, each of its own part of one batch: (samples, loss) of each part, in order."""
    total = sum(count for count, _ in parts)
    return joined(*((count, (total / count) * loss) for count, loss in parts))


def torch_loss(function: Callable[[Any], Any]) -> Loss:
    """A loss written in torch, from logits to a scalar; autograd differentiates it.

    torch_loss(lambda logits: torch.nn.functional.cross_entropy(logits, labels))
    """
    import torch

    def evaluate(logits: Logits) -> tuple[float, Logits]:
        variable = torch.from_numpy(logits).detach().requires_grad_()
        value = function(variable)
        (gradient,) = torch.autograd.grad(value, variable)
        return value.item(), gradient.numpy()

    return Loss(evaluate)
