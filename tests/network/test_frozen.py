"""Copies that stay as they are, features before the classifier, and updates of some of the numbers only."""

import numpy as np
import pytest

from sparcl.graph import build_model
from sparcl.network import FrozenNetwork, Sgd, build_network

IMAGES = np.random.default_rng(0).normal(size=(5, 3, 8, 8)).astype(np.float32)


def network(backend, sparse, model="resnet18"):
    made = build_network(build_model(model, (3, 8, 8), 4, 4), np.random.default_rng(1), 1, backend)
    if sparse:
        weight = "stage1.block1.conv1.weight" if model == "resnet18" else "conv2.weight"
        made.parameters.set_index({weight: np.arange(0, 144, 3)})
    return made


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("backend", ["torch", "native"])
@pytest.mark.parametrize("model", ["resnet18", "convnet"])
def test_the_classifier_of_the_features_gives_the_logits(backend, sparse, model):
    net = network(backend, sparse, model)
    values = net.parameters.values
    expected = net.features(IMAGES) @ values["classifier.weight"].T + values["classifier.bias"]
    np.testing.assert_allclose(net.predict(IMAGES), expected, rtol=1e-4, atol=1e-5)
    assert net.features(IMAGES).std() > 0


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("backend", ["torch", "native"])
def test_a_frozen_network_does_not_change_with_its_original(backend, sparse):
    net = network(backend, sparse)
    frozen = FrozenNetwork(net)
    before = frozen.predict(IMAGES)
    np.testing.assert_array_equal(before, net.predict(IMAGES))
    logits, context = net.forward(IMAGES)
    net.backward(context, np.ones_like(logits))
    Sgd(net.parameters, 0.5).step()
    if sparse:
        net.parameters.set_index({"stage1.block1.conv1.weight": np.arange(1, 144, 3)})
    assert not np.array_equal(net.predict(IMAGES), before)
    np.testing.assert_array_equal(frozen.predict(IMAGES), before)
    state = {name: array.copy() for name, array in frozen.state().items()}
    np.testing.assert_array_equal(FrozenNetwork.restored(net, state).predict(IMAGES), before)
    with pytest.raises(ValueError, match="do not fit"):
        FrozenNetwork.restored(net, state | {"values": state["values"][:-1]})


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_what_is_not_trainable_stays_to_the_last_bit(momentum):
    net = network("torch", sparse=False)
    parameters = net.parameters
    optimizer = Sgd(parameters, 0.1, momentum, weight_decay=0.3)
    trainable = np.random.default_rng(0).random(len(parameters.values.flat)) < 0.5
    before = parameters.values.flat.copy()
    for _ in range(2):
        parameters.gradients.flat[...] = 1.0
        optimizer.step(trainable)
    np.testing.assert_array_equal(parameters.values.flat[~trainable], before[~trainable])
    assert (parameters.values.flat[trainable] < before[trainable]).all()
    np.testing.assert_array_equal(parameters.gradients.flat, 0)
    for slot in parameters.slots.values():
        np.testing.assert_array_equal(slot.flat[~trainable], 0)


def test_added_gradients_leave_masked_weights_alone():
    parameters = network("native", sparse=True).parameters
    name = "stage1.block1.conv1.weight"
    parameters.gradients.flat[...] = 1.0
    parameters.updated = {name: np.array([0, 5])}
    parameters.add_gradients(np.full_like(parameters.gradients.flat, 2.0))
    assert parameters.gradients[name][[0, 5]].tolist() == [3.0, 3.0]
    assert (np.delete(parameters.gradients[name], [0, 5]) == 1.0).all()
    assert (parameters.gradients["stem.conv.weight"] == 3.0).all()
