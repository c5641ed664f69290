"""Sparse weights: storage, movement, and the torch backend against a masked dense network."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sparcl.graph import build_model
from sparcl.network import Parameters, Sgd
from sparcl.network.torch import TorchNetwork

LAYER = "conv2.weight"


def positions(generator, size, count):
    return np.sort(generator.choice(size, count, replace=False))


@settings(deadline=None)
@given(st.integers(0, 9999), st.integers(0, 81), st.integers(0, 81))
def test_moving_keeps_what_stays_and_zeroes_what_is_new(seed, before, after):
    generator = np.random.default_rng(seed)
    parameters = Parameters(build_model("convnet", (2, 7, 6), 4, 3))
    size = parameters.values.specs[LAYER].size
    assert size >= 81
    other = "conv3.weight"  # sparse as well, and not moved
    old, new = positions(generator, size, before), positions(generator, size, after)
    parameters.set_index({LAYER: old, other: positions(generator, 100, 30)})
    parameters.values.flat[...] = generator.normal(size=parameters.values.flat.size)
    parameters.gradients.flat[...] = generator.normal(size=parameters.values.flat.size)
    stores = {"values": parameters.values, "gradients": parameters.gradients}
    parameters.set_index({LAYER: new})
    for name, store in stores.items():
        moved = getattr(parameters, name)
        expected = np.where(np.isin(np.arange(size), new), store.dense(LAYER).ravel(), 0)
        np.testing.assert_array_equal(moved.dense(LAYER).ravel(), expected)
        for kept in set(store) - {LAYER}:
            np.testing.assert_array_equal(moved[kept], store[kept])
        assert moved[LAYER].shape == (after,)


def sparse_network(seed=0, density=0.3, dtype=np.float64):
    graph = build_model("convnet", (2, 7, 6), 4, 3)
    parameters = Parameters(graph, dtype)
    generator = np.random.default_rng(seed)
    parameters.initialise(graph, generator)
    size = parameters.values.specs[LAYER].size
    parameters.set_index({LAYER: positions(generator, size, round(density * size))})
    return TorchNetwork(graph, parameters), generator


def masked_reference(network):
    """The same network with the layer dense, its inactive weights zero."""
    reference = Parameters(network.graph, np.float64)
    for name in reference.values:
        reference.values[name][...] = network.parameters.values.dense(name)
    return TorchNetwork(network.graph, reference)


@pytest.mark.parametrize("density", [0.0, 0.05, 0.3, 1.0])
def test_logits_and_gradients_are_those_of_the_masked_dense_network(density):
    network, generator = sparse_network(density=density)
    reference = masked_reference(network)
    images, d_logits = generator.normal(size=(3, 2, 7, 6)), generator.normal(size=(3, 4))
    dense_gradient = np.zeros(network.parameters.values.specs[LAYER].shape)
    logits, context = network.forward(images)
    network.backward(context, d_logits, {LAYER: dense_gradient})
    expected, context = reference.forward(images)
    reference.backward(context, d_logits)
    np.testing.assert_allclose(logits, expected, atol=1e-12)
    index = network.parameters.index[LAYER]
    full = reference.parameters.gradients.dense(LAYER)
    np.testing.assert_allclose(dense_gradient, full, atol=1e-12)
    np.testing.assert_allclose(network.parameters.gradients[LAYER], full.ravel()[index], atol=1e-12)
    for name in network.parameters.values:
        if name != LAYER:
            ours, theirs = network.parameters.gradients[name], reference.parameters.gradients[name]
            np.testing.assert_allclose(ours, theirs, atol=1e-12)


def test_no_gradient_outside_the_chosen_weights_and_two_contexts_add_up():
    network, generator = sparse_network()
    count = len(network.parameters.index[LAYER])
    chosen = np.sort(generator.choice(count, count // 2, replace=False))
    images, d_logits = generator.normal(size=(2, 3, 2, 7, 6)), generator.normal(size=(2, 3, 4))
    _, a = network.forward(images[0])
    _, b = network.forward(images[1])
    network.backward(a, d_logits[0])
    network.backward(b, d_logits[1])
    everywhere = network.parameters.gradients[LAYER].copy()
    network.parameters.gradients.flat[...] = 0
    network.parameters.updated[LAYER] = chosen
    for one, derivative in zip(images, d_logits, strict=True):
        network.backward(network.forward(one)[1], derivative)
    mask = np.isin(np.arange(count), chosen)
    np.testing.assert_allclose(network.parameters.gradients[LAYER], np.where(mask, everywhere, 0), atol=1e-12)


@pytest.mark.parametrize(("momentum", "decay"), [(0.0, 0.0), (0.9, 0.0), (0.9, 0.01)])
def test_optimizer_state_moves_with_the_weights_and_frozen_ones_stand_still(momentum, decay):
    network, generator = sparse_network(dtype=np.float32)
    parameters = network.parameters
    optimizer = Sgd(parameters, 0.1, momentum, decay)
    size = parameters.values.specs[LAYER].size
    dense_values = parameters.values.dense(LAYER).ravel()
    dense_velocity = np.zeros(size, np.float32)
    for step in range(6):
        if step == 3:
            old, new = parameters.index[LAYER], positions(generator, size, size // 2)
            parameters.set_index({LAYER: new})
            stays = np.isin(np.arange(size), new) & np.isin(np.arange(size), old)
            dense_values, dense_velocity = np.where(stays, dense_values, 0), np.where(stays, dense_velocity, 0)
        index = parameters.index[LAYER]
        chosen = np.sort(generator.choice(len(index), len(index) // 2, replace=False))
        parameters.updated[LAYER] = chosen
        gradient = np.zeros(len(index), np.float32)
        gradient[chosen] = generator.normal(size=len(chosen))
        parameters.gradients[LAYER][...] = gradient
        where = index[chosen]
        dense_velocity[where] = momentum * dense_velocity[where] + gradient[chosen] + decay * dense_values[where]
        dense_values[where] -= 0.1 * dense_velocity[where]
        optimizer.step()
        np.testing.assert_allclose(parameters.values.dense(LAYER).ravel(), dense_values, rtol=1e-5, atol=1e-6)


def test_positions_that_make_no_sense_are_refused():
    network, _ = sparse_network()
    for bad in ([3, 3], [5, 2], [-1, 4], [0, 10**6]):
        with pytest.raises(ValueError, match="positions"):
            network.parameters.set_index({LAYER: np.array(bad)})


def test_a_grown_weight_is_zero_and_learns():
    network, generator = sparse_network(dtype=np.float32)
    old = network.parameters.index[LAYER]
    grown = np.setdiff1d(np.arange(network.parameters.values.specs[LAYER].size), old)[:5]
    network.parameters.set_index({LAYER: np.union1d(old, grown)})
    places = np.searchsorted(network.parameters.index[LAYER], grown)
    assert not network.parameters.values[LAYER][places].any()
    optimizer = Sgd(network.parameters, 0.1)
    images = generator.normal(size=(3, 2, 7, 6)).astype(np.float32)
    logits, context = network.forward(images)
    network.backward(context, logits)
    optimizer.step()
    assert network.parameters.values[LAYER][places].any()
    assert torch.is_tensor(context)
