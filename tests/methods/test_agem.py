"""A-GEM: the projection against its closed form, and a step against autograd."""

import numpy as np
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from reference import gradient

from sparcl.methods.agem import projected


@given(st.integers(1, 30), st.integers(0, 10_000))
def test_the_projection_is_the_nearest_gradient_that_does_no_harm(size, seed):
    generator = np.random.default_rng(seed)
    g, reference = generator.normal(size=size), generator.normal(size=size)
    found = projected(g, reference)
    if g @ reference >= 0:
        np.testing.assert_array_equal(found, g)
        return
    closed_form = (np.eye(size) - np.outer(reference, reference) / (reference @ reference)) @ g
    np.testing.assert_allclose(found, closed_form, rtol=1e-9, atol=1e-9)
    for _ in range(20):  # nothing that does no harm lies nearer
        other = found + generator.normal(size=size) * 0.1
        other -= min(0.0, other @ reference) / (reference @ reference) * reference
        assert np.linalg.norm(found - g) <= np.linalg.norm(other - g) + 1e-12


def ce(labels):
    return lambda logits: F.cross_entropy(logits, torch.from_numpy(labels))


def test_a_step_applies_the_projected_gradient(bench):
    table = bench("agem")
    method, task = table.method, table.task(1)
    table.learn(table.task(0))
    method.begin_task(task)
    projections = 0
    for number in range(6):
        drawn = []
        original = type(method).replay
        method.replay = lambda drawn=drawn, original=original: drawn.append(original(method)) or drawn[-1]
        values = method.network.parameters.values.flat
        before, batch = values.copy(), table.batch_of(task, number)
        g = gradient(method.network, [(batch.images, ce(batch.labels))]).astype(np.float64)
        frozen = method.network.with_parameters(method.network.parameters.copy())
        method.step(batch)
        (replayed,) = drawn
        g_ref = gradient(frozen, [(replayed.images, ce(replayed.labels))]).astype(np.float64)
        if g @ g_ref < 0:
            projections += 1
            g = g - (g @ g_ref) / (g_ref @ g_ref) * g_ref
        np.testing.assert_allclose(values, before - 0.03 * g, rtol=1e-4, atol=1e-6)
    assert projections > 0


def test_every_task_fills_its_share_of_the_buffer(bench):
    table = bench("agem", buffer_size=20, tasks=3)
    for index in range(3):
        table.learn(table.task(index), steps=2)
        assert len(table.method.buffer) == 6 * (index + 1)
    buffer = table.method.buffer
    assert buffer.tasks[:18].tolist() == [0] * 6 + [1] * 6 + [2] * 6
    assert (buffer.labels[:18] // 2 == buffer.tasks[:18]).all()
