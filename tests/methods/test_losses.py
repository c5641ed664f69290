"""Every loss against torch autograd in float64."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from sparcl.methods import cross_entropy, logit_mse, torch_loss
from sparcl.methods.losses import distillation, joined, sigmoid_cross_entropy, softmax_distance


def check(loss, reference, logits):
    variable = torch.from_numpy(logits.copy()).requires_grad_()
    expected = reference(variable)
    expected.backward()
    value, gradient = loss(logits)
    assert value == pytest.approx(expected.item(), rel=1e-9, abs=1e-12)
    np.testing.assert_allclose(gradient, variable.grad.numpy(), rtol=1e-9, atol=1e-12)


@given(st.integers(1, 9), st.integers(1, 12), st.integers(0, 10_000), st.sampled_from([0.1, 1.0, 300.0]))
def test_losses_and_their_gradients_agree_with_autograd(batch, classes, seed, scale):
    generator = np.random.default_rng(seed)
    logits = generator.normal(scale=scale, size=(batch, classes))
    labels = generator.integers(0, classes, batch)
    targets = generator.normal(size=(batch, classes))
    torch_labels, torch_targets = torch.from_numpy(labels), torch.from_numpy(targets)
    check(cross_entropy(labels), lambda z: F.cross_entropy(z, torch_labels), logits)
    check(logit_mse(targets), lambda z: F.mse_loss(z, torch_targets), logits)
    check(
        cross_entropy(labels) + 0.3 * logit_mse(targets),
        lambda z: F.cross_entropy(z, torch_labels) + 0.3 * F.mse_loss(z, torch_targets),
        logits,
    )
    check(
        cross_entropy(labels, range(int(labels.max()) + 1)),
        lambda z: F.cross_entropy(z[:, : int(labels.max()) + 1], torch_labels),
        logits,
    )
    check(
        joined(
            (batch // 2, cross_entropy(labels[: batch // 2])), (batch - batch // 2, cross_entropy(labels[batch // 2 :]))
        )
        if batch > 1
        else cross_entropy(labels),
        lambda z: F.cross_entropy(z, torch_labels),
        logits,
    )
    some = range(classes // 2, classes)
    softened = F.softmax(torch_targets[:, some.start :] / 2, 1)
    check(distillation(targets, some, 2.0), lambda z: F.cross_entropy(z[:, some.start :] / 2, softened), logits)
    check(
        sigmoid_cross_entropy(1 / (1 + np.exp(-targets[:, : (classes + 1) // 2]))),
        lambda z: F.binary_cross_entropy_with_logits(
            z[:, : (classes + 1) // 2], torch.sigmoid(torch_targets[:, : (classes + 1) // 2])
        ),
        logits,
    )
    if classes > 1:  # otherwise all probabilities are 1, and norms of zero have no derivative
        check(
            softmax_distance(targets),
            lambda z: torch.linalg.norm(F.softmax(z, 1) - F.softmax(torch_targets, 1), dim=1).mean(),
            logits,
        )
    check(torch_loss(lambda z: F.mse_loss(z, torch_targets)), lambda z: F.mse_loss(z, torch_targets), logits)


def test_a_distance_of_zero_pulls_nowhere():
    value, gradient = softmax_distance(np.ones((2, 3)))(np.full((2, 3), 5.0))
    assert value == 0
    np.testing.assert_array_equal(gradient, 0)


def test_float32_logits_give_float32_gradients():
    """A gradient in float64 would silently double the work of the backward pass, or be refused by it."""
    logits = np.zeros((3, 4), np.float32)
    loss = 0.5 * cross_entropy(np.zeros(3, np.int64)) + 0.2 * logit_mse(np.ones((3, 4), np.float32))
    assert loss(logits)[1].dtype == np.float32
    ones = np.ones((3, 4), np.float32)
    for other in (distillation(ones, range(2), 2.0), sigmoid_cross_entropy(ones), softmax_distance(ones)):
        assert other(logits)[1].dtype == np.float32
