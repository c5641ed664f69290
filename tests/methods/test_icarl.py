"""iCaRL: its loss against autograd, herding and nearest means against brute force."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from reference import gradient, torch_copy

from sparcl.errors import SparclError
from sparcl.methods.icarl import herd


@given(st.integers(1, 12), st.integers(1, 5), st.integers(0, 14), st.integers(0, 10_000))
def test_herding_takes_the_best_of_all_candidates_each_time(samples, size, count, seed):
    features = np.random.default_rng(seed).normal(size=(samples, size))
    chosen = herd(features, count)
    assert len(chosen) == len(set(chosen.tolist())) == min(count, samples)
    mean = features.mean(axis=0)
    for place, found in enumerate(chosen):
        before = chosen[:place].tolist()
        candidates = [c for c in range(samples) if c not in before]
        distances = [np.linalg.norm(mean - features[[*before, c]].mean(axis=0)) for c in candidates]
        assert distances[candidates.index(found)] <= min(distances) + 1e-9


def test_a_step_descends_on_sigmoid_outputs_of_the_old_network_and_labels(bench):
    table = bench("icarl", weight_decay=0.0)
    method, first, second = table.method, table.task(0), table.task(1)
    table.learn(first)
    old = torch_copy(method.network)
    method.begin_task(second)
    drawn = []
    original = method.replay
    method.replay = lambda: drawn.append(original()) or drawn[-1]
    for number in range(3):
        frozen = method.network.with_parameters(method.network.parameters.copy())
        batch = table.batch_of(second, number)
        method.step(batch)
        images = np.concatenate([batch.images, drawn[-1].images])
        labels = torch.from_numpy(np.concatenate([batch.labels, drawn[-1].labels]))
        targets = F.one_hot(labels, 4).float()
        targets[:, :2] = torch.sigmoid(torch.from_numpy(old.predict(images))[:, :2])
        g = gradient(
            frozen, [(images, lambda z, targets=targets: F.binary_cross_entropy_with_logits(z[:, :4], targets))]
        )
        expected = frozen.parameters.values.flat - 0.1 * g
        np.testing.assert_allclose(method.network.parameters.values.flat, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("backend", ["torch", "native"])
def test_it_predicts_the_class_with_the_nearest_mean_of_exemplars(bench, backend):
    table = bench("icarl", backend=backend, buffer_size=21)
    method = table.method
    for index in range(2):
        table.learn(table.task(index))
    buffer, network = method.buffer, torch_copy(method.network)
    assert np.bincount(buffer.labels[: len(buffer)]).tolist() == [5, 5, 5, 5]

    def normalised(images):
        features = network.features(images)
        return features / np.linalg.norm(features, axis=1, keepdims=True)

    task = table.task(1)
    method.begin_evaluation(task)
    images = table.augmentation.test(task.test.images, task.test.positions)
    scores = method.predict(images, task)
    exemplars = normalised(table.augmentation.test(buffer.images, np.arange(len(buffer))))
    means = np.stack([exemplars[buffer.labels[: len(buffer)] == c].mean(axis=0) for c in range(4)])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    distances = np.linalg.norm(normalised(images)[:, None] - means[None], axis=2)
    np.testing.assert_allclose(-scores[:, :4], distances, rtol=1e-3, atol=1e-5)
    assert (scores[:, 4] == -np.inf).all()
    # A class that has no exemplars yet is judged by the first images of the task at hand.
    third = table.task(2)
    method.begin_task(third)
    method.begin_evaluation(third)
    assert sorted(method.means) == [0, 1, 2, 3, 4]


def test_exemplars_of_all_classes_must_fit(bench):
    with pytest.raises(SparclError, match="at least 5"):
        bench("icarl", buffer_size=4)
