"""One update of each method against the method's equation written with torch autograd."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from reference import gradient

from sparcl.methods import METHODS
from sparcl.network.torch import TorchNetwork


def step_and_reference(bench, terms_of):
    """Three steps to fill the buffer; the fourth is compared. `terms_of` gives the losses from what was replayed."""
    for number in range(3):
        bench.method.step(bench.batch(number))
    drawn = []
    original = getattr(bench.method, "replay", None)
    if original is not None:
        bench.method.replay = lambda: drawn.append(original()) or drawn[-1]
    batch = bench.batch(3)
    before = bench.method.network.parameters.values.flat.copy()
    statistics = bench.method.network.parameters.statistics.flat.copy()
    logits = bench.method.step(batch)
    after = bench.method.network.parameters.values.flat.copy()
    parameters = bench.method.network.parameters
    parameters.values.flat[...], parameters.statistics.flat[...] = before, statistics
    expected = before - bench.method.learning_rate * gradient(bench.method.network, terms_of(batch, *drawn))
    np.testing.assert_allclose(after, expected, rtol=1e-4, atol=1e-6)
    reference = TorchNetwork(bench.method.network.graph, parameters)
    return logits, reference.forward(batch.images)[0]


def ce(labels):
    return lambda logits: F.cross_entropy(logits, torch.from_numpy(labels))


def mse(targets, factor):
    return lambda logits: factor * F.mse_loss(logits, torch.from_numpy(targets))


@pytest.mark.parametrize("name", ["sgd", "joint"])
def test_sgd(bench, name):
    logits, expected = step_and_reference(bench(name), lambda batch: [(batch.images, ce(batch.labels))])
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-6)


def test_er_is_one_forward_over_both(bench):
    def terms(batch, replayed):
        images = np.concatenate([batch.images, replayed.images])
        return [(images, ce(np.concatenate([batch.labels, replayed.labels])))]

    logits, _ = step_and_reference(bench("er"), terms)
    assert len(logits) == 6


def test_der(bench):
    def terms(batch, a):
        return [(batch.images, ce(batch.labels)), (a.images, mse(a.logits, 0.7))]

    step_and_reference(bench("der", alpha=0.7), terms)


def test_derpp_draws_twice_and_forwards_three_times(bench):
    def terms(batch, a, b):
        assert not np.array_equal(a.images, b.images)
        replayed = (b.images, lambda logits: 0.4 * ce(b.labels)(logits))
        return [(batch.images, ce(batch.labels)), (a.images, mse(a.logits, 0.7)), replayed]

    step_and_reference(bench("derpp", alpha=0.7, beta=0.4), terms)


def test_derpp_in_one_pass_has_the_same_losses_on_one_forward(bench):
    def terms(batch, a, b):
        def loss(logits):
            of_batch, of_a, of_b = torch.split(logits, [len(batch), len(a.labels), len(b.labels)])
            return ce(batch.labels)(of_batch) + mse(a.logits, 0.7)(of_a) + 0.4 * ce(b.labels)(of_b)

        return [(np.concatenate([batch.images, a.images, b.images]), loss)]

    logits, _ = step_and_reference(bench("derpp", alpha=0.7, beta=0.4, one_pass=True), terms)
    assert len(logits) == 6


@pytest.mark.parametrize("name", ["der", "derpp"])
def test_stored_logits_are_those_of_the_training_forward(bench, name):
    table = bench(name, buffer_size=200)
    presented = [table.method.step(table.batch(number)) for number in range(4)]
    np.testing.assert_array_equal(table.method.buffer.logits[:24], np.concatenate(presented))


@pytest.mark.parametrize("name", ["er", "der", "derpp", "agem", "fdr"])
def test_without_a_buffer_every_rehearsal_method_is_plain_sgd(bench, name):
    ours, plain = bench(name, buffer_size=0, learning_rate=0.05), bench("sgd", learning_rate=0.05)
    for number in range(3):
        ours.method.step(ours.batch(number))
        plain.method.step(plain.batch(number))
    a, b = (table.method.network.parameters.values.flat for table in (ours, plain))
    np.testing.assert_array_equal(a, b)


def test_tuned_hyperparameters_are_those_of_the_paper():
    assert METHODS["derpp"].tuned_for("cifar10", 500) == {"alpha": 0.2, "beta": 0.5}
    assert METHODS["derpp"].tuned_for("tiny_imagenet", 200) == {"alpha": 0.1, "beta": 1.0}
    assert METHODS["er"].tuned_for("tiny_imagenet", 450) == {"learning_rate": 0.03}
    assert METHODS["derpp"].tuned_for("my photos", 200) == {}


def test_tuned_hyperparameters_exist():
    """A misspelt key in a table of tuned values would only show when somebody uses it."""
    for method in METHODS.values():
        for by_size in method.tuned.values():
            for values in by_size.values():
                assert set(values) <= set(method.hyperparameters())
