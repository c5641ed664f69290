"""Online EWC: Fisher information and penalty against autograd, sample by sample."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from reference import gradient, torch_copy


def fisher_by_autograd(bench, task, positions):
    network = torch_copy(bench.method.network)
    total = np.zeros(len(network.parameters.values.flat))
    for position in positions:
        image = bench.augmentation.test(task.train.images, task.train.positions[[position]])
        log_p = F.log_softmax(network.forward(image, train=False)[1], 1)[0, task.train.labels[position]]
        log_p.backward()
        total += network.parameters.gradients.flat.astype(np.float64) ** 2
        network.parameters.gradients.flat[...] = 0
    return total / len(positions)


@pytest.mark.parametrize("backend", ["torch", "native"])
def test_fisher_information_is_the_mean_of_squared_gradients_of_single_samples(bench, backend):
    table = bench("ewc", backend=backend)
    task = table.task(0)
    statistics = table.method.network.parameters.statistics.flat.copy()
    table.method.end_task(task)
    expected = fisher_by_autograd(table, task, range(len(task.train)))
    np.testing.assert_allclose(table.method.fisher.flat, expected, rtol=1e-3, atol=1e-7)
    assert expected.max() > 1e-3
    np.testing.assert_array_equal(table.method.network.parameters.statistics.flat, statistics)
    np.testing.assert_array_equal(table.method.network.parameters.gradients.flat, 0)


def test_fewer_samples_are_spread_over_the_task(bench):
    table = bench("ewc", fisher_samples=3)
    task = table.task(0)
    table.method.end_task(task)
    last = len(task.train) - 1
    expected = fisher_by_autograd(table, task, [0, last // 2, last])
    np.testing.assert_allclose(table.method.fisher.flat, expected, rtol=1e-3, atol=1e-7)


def test_information_of_tasks_adds_up_with_gamma(bench):
    table = bench("ewc", gamma=0.25)
    first, second = table.task(0), table.task(1)
    table.method.end_task(first)
    before = table.method.fisher.flat.copy()
    table.method.end_task(second)
    added = fisher_by_autograd(table, second, range(len(second.train)))
    np.testing.assert_allclose(table.method.fisher.flat, 0.25 * before + added, rtol=1e-3, atol=1e-7)


def test_a_step_descends_on_the_penalised_loss(bench):
    table = bench("ewc", strength=3.0)
    method, task = table.method, table.task(1)
    table.learn(table.task(0))
    anchor = torch.from_numpy(method.anchor.flat.copy())
    method.begin_task(task)
    method.step(table.batch_of(task, 0))
    values = method.network.parameters.values.flat
    before = values.copy()
    batch = table.batch_of(task, 1)
    expected = gradient(
        method.network, [(batch.images, lambda z: F.cross_entropy(z, torch.from_numpy(batch.labels)))]
    ).copy()
    weights = torch.from_numpy(before.copy()).requires_grad_()
    (3.0 * (torch.from_numpy(method.fisher.flat) * (weights - anchor) ** 2).sum()).backward()
    assert weights.grad.abs().max() > 1e-5
    method.step(batch)
    np.testing.assert_allclose(values, before - 0.03 * (expected + weights.grad.numpy()), rtol=1e-4, atol=1e-6)


def test_a_penalty_too_steep_for_gradient_descent_leads_back_and_no_further(bench):
    table = bench("ewc", strength=1e9)
    method = table.method
    table.learn(table.task(0))
    values = method.network.parameters.values.flat
    values += 0.1
    method.add_penalty()
    method.update()
    held = method.fisher.flat > 1e-6
    assert held.any()
    np.testing.assert_allclose(values[held], method.anchor.flat[held], atol=1e-6)


def test_the_penalty_follows_sparse_weights_and_leaves_masked_ones_alone(bench):
    table = bench("ewc")
    method, parameters = table.method, table.method.network.parameters
    parameters.set_index({"conv2.weight": np.arange(0, 40)})
    table.learn(table.task(0))
    before = method.fisher["conv2.weight"].copy()
    assert (before > 0).any()
    parameters.set_index({"conv2.weight": np.arange(20, 60)})
    parameters.values.flat[...] += 0.5
    parameters.updated = {"conv2.weight": np.arange(0, 30)}
    method.add_penalty()
    fisher, gradients = method.fisher["conv2.weight"], parameters.gradients["conv2.weight"]
    np.testing.assert_array_equal(fisher[:20], before[20:])
    np.testing.assert_array_equal(fisher[20:], 0)  # grown weights have no past
    expected = np.minimum(2 * method.strength * before[20:], 1 / method.learning_rate) * 0.5
    np.testing.assert_allclose(gradients[:20], expected, rtol=1e-4)
    parameters.gradients.flat[...] = 0
    parameters.updated = {"conv2.weight": np.arange(0, 5)}
    method.add_penalty()
    assert (gradients[5:] == 0).all() and (gradients[:5] != 0).any()
