"""LwF: a step against autograd, the warm-up, and the network it remembers."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from reference import gradient, torch_copy


def seen_ce(labels, start, stop):
    return lambda z: F.cross_entropy(z[:, start:stop], torch.from_numpy(labels) - start)


def test_a_step_descends_on_ce_over_seen_classes_and_distillation_of_past_ones(bench):
    table = bench("lwf", alpha=0.7, weight_decay=0.0, warm_up=0.1)
    method, first, second = table.method, table.task(0), table.task(1)
    table.learn(first)
    old = torch_copy(method.network)
    method.begin_task(second)
    for number in range(3):
        values = method.network.parameters.values.flat
        before, batch = values.copy(), table.batch_of(second, number)
        target = F.softmax(torch.from_numpy(old.predict(batch.images))[:, :2] / 2, 1)

        def loss(z, batch=batch, target=target):
            distilled = -(target * F.log_softmax(z[:, :2] / 2, 1)).sum(1).mean()
            return seen_ce(batch.labels, 0, 4)(z) + 0.7 * distilled

        expected = before - 0.01 * gradient(method.network, [(batch.images, loss)])
        method.step(batch)
        np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("backend", ["torch", "native"])
def test_the_warm_up_moves_the_classifier_and_nothing_else(bench, backend):
    table = bench("lwf", backend=backend)
    method, second = table.method, table.task(1)
    table.learn(table.task(0))
    method.begin_task(second)
    parameters = method.network.parameters
    before, statistics = parameters.values.flat.copy(), parameters.statistics.flat.copy()
    batch = table.batch_of(second, 0, progress=0.05)
    network = torch_copy(method.network)
    g = gradient(network, [(batch.images, seen_ce(batch.labels, 2, 4))], train=False)
    method.step(batch)
    np.testing.assert_array_equal(parameters.statistics.flat, statistics)
    head = parameters.values.slices["classifier.weight"].start
    np.testing.assert_array_equal(parameters.values.flat[:head], before[:head])  # weight decay leaves them alone too
    expected = before[head:] - 0.01 * (g[head:] + 5e-4 * before[head:])
    np.testing.assert_allclose(parameters.values.flat[head:], expected, rtol=1e-4, atol=1e-6)


def test_the_first_task_has_neither_warm_up_nor_distillation(bench):
    table = bench("lwf", weight_decay=0.0)
    task = table.task(0)
    table.method.begin_task(task)
    batch = table.batch_of(task, 0, progress=0.0)
    values = table.method.network.parameters.values.flat
    expected = values - 0.01 * gradient(table.method.network, [(batch.images, seen_ce(batch.labels, 0, 2))])
    table.method.step(batch)
    np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-6)
