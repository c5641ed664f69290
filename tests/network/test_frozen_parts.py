"""Frozen parts of a network against a torch module in which the same parts are frozen by hand."""

import numpy as np
import pytest
import torch
from torch import nn

import sparcl
from sparcl.network import AdamW
from sparcl.network.native import NativeNetwork
from sparcl.network.part_rates import part_rates
from sparcl.network.torch import TorchNetwork

BACKENDS = {"torch": (TorchNetwork, torch.float64, 1e-9), "native": (NativeNetwork, torch.float32, 2e-4)}


class Block(nn.Module):
    def __init__(self, inputs, channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.shortcut = nn.Conv2d(inputs, channels, 1, stride, 0)
        self.relu = nn.ReLU()

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + self.shortcut(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, 1, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU())
        self.stage1, self.stage2, self.stage3 = Block(4, 5, 1), Block(5, 6, 2), Block(6, 7, 2)
        self.pool, self.flatten = nn.AdaptiveAvgPool2d(1), nn.Flatten()
        self.classifier = nn.Linear(7, 4)

    def forward(self, x):
        return self.classifier(self.flatten(self.pool(self.stage3(self.stage2(self.stage1(self.stem(x)))))))


FROZEN = {
    "nothing": [],
    "the stem": ["stem"],
    "the lower half": ["stem", "stage1"],
    "all but the classifier": ["stem", "stage1", "stage2", "stage3"],
    "the middle": ["stage2"],
    "a normalisation": ["stage2.bn1"],
    "a convolution": ["stage2.conv2"],
    "the upper half": ["stage3", "classifier"],
}


def frozen_by_hand(module, parts):
    for name, layer in module.named_modules():
        if any(name == part or name.startswith(f"{part}.") for part in parts):
            layer.requires_grad_(False)
            layer.eval()


@pytest.fixture(params=[False, True], ids=["dense", "sparse"])
def sparse(request):
    return request.param


@pytest.fixture(params=FROZEN)
def parts(request):
    return FROZEN[request.param]


@pytest.fixture(params=BACKENDS)
def both(request, parts, sparse):
    """The module and our network of it, with the same numbers."""
    kind, dtype, tolerance = BACKENDS[request.param]
    torch.manual_seed(0)
    module = Net().to(dtype)
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.running_mean.normal_()
            layer.running_var.uniform_(0.5, 2)
            nn.init.normal_(layer.bias)
    graph, parameters = sparcl.from_torch(module, (3, 8, 8))
    if sparse:
        generator = np.random.default_rng(0)
        for name in ("stage1.conv2.weight", "stage2.conv2.weight", "stage3.conv1.weight"):
            size = parameters.values.specs[name].size
            index = np.sort(generator.choice(size, size // 3, replace=False)).astype(np.int32)
            parameters.set_index({name: index})
            with torch.no_grad():
                mask = torch.zeros(size, dtype=dtype)
                mask[torch.from_numpy(index).long()] = 1
                module.get_parameter(name).mul_(mask.reshape(module.get_parameter(name).shape))
    parameters.set_rates(part_rates(graph, dict.fromkeys(parts, 0.0)))
    module.train()
    frozen_by_hand(module, parts)
    return kind(graph, parameters), module, tolerance


def one_pass(network, module):
    generator = np.random.default_rng(1)
    dtype = network.parameters.values.flat.dtype
    images = generator.normal(size=(5, 3, 8, 8)).astype(dtype)
    d_logits = generator.normal(size=(5, 4)).astype(dtype)
    logits, context = network.forward(images)
    network.backward(context, d_logits)
    expected = module(torch.from_numpy(images))
    expected.backward(torch.from_numpy(d_logits))
    return logits, expected.detach().numpy()


def test_logits_gradients_and_statistics_are_those_of_the_module(both):
    network, module, tolerance = both
    logits, expected = one_pass(network, module)
    np.testing.assert_allclose(logits, expected, atol=tolerance)
    parameters = network.parameters
    for name in parameters.values:
        theirs = module.get_parameter(name).grad
        ours = parameters.gradients[name]
        if name in parameters.frozen:
            assert theirs is None and not ours.any()
        else:
            index = parameters.index.get(name)
            theirs = theirs.numpy() if index is None else theirs.numpy().ravel()[index]
            np.testing.assert_allclose(ours, theirs, atol=tolerance, err_msg=name)
    for name in parameters.statistics:
        np.testing.assert_allclose(parameters.statistics[name], module.get_buffer(name).numpy(), atol=tolerance)


def test_frozen_statistics_stay_to_the_last_bit(both, parts):
    network, module, _ = both
    before = network.parameters.statistics.flat.copy()
    one_pass(network, module)
    statistics = network.parameters.statistics
    for name in statistics:
        frozen = any(name.startswith(f"{part}.") for part in parts)
        assert np.array_equal(statistics[name], before[statistics.slices[name]]) == frozen, name


def test_predictions_are_not_changed_by_freezing(both):
    network = both[0]
    images = np.random.default_rng(2).normal(size=(3, 3, 8, 8)).astype(network.parameters.values.flat.dtype)
    frozen = network.predict(images.copy())
    network.parameters.set_rates({})
    np.testing.assert_array_equal(network.predict(images), frozen)


def test_torch_records_nothing_below_the_first_layer_that_is_trained(both, parts):
    network, _, _ = both
    if not isinstance(network, TorchNetwork):
        pytest.skip("of torch only")
    _, context = network.forward(np.zeros((2, 3, 8, 8)))
    functions, found = [context.grad_fn], set()
    while functions:
        function = functions.pop()
        if function not in found:
            found.add(function)
            functions += [below for below, _ in function.next_functions if below is not None]
    convolutions = sum(type(function).__name__ == "ConvolutionBackward0" for function in found)
    everywhere = 1 + 3 * 3
    below = {"stem": 1, "stage1": 3, "stage2": 3, "stage3": 3}
    recorded = everywhere
    for name, count in below.items():  # from the bottom up, until something is trained
        if name not in parts:
            break
        recorded -= count
    assert convolutions == recorded


def test_weights_that_were_frozen_are_trained_once_they_no_longer_are():
    graph, parameters = sparcl.from_torch(Net(), (3, 8, 8))
    network = TorchNetwork(graph, parameters)
    images = np.random.default_rng(0).normal(size=(4, 3, 8, 8)).astype(np.float32)

    def trained():
        before = parameters.values.flat.copy()
        logits, context = network.forward(images)
        network.backward(context, np.ones_like(logits))
        AdamW(parameters, 0.01, weight_decay=0.1).step()
        moved = parameters.values.flat != before
        return {name for name in parameters.values if moved[parameters.values.slices[name]].any()}

    everything = set(parameters.values)
    assert trained() == everything
    parameters.set_rates(part_rates(graph, {"stem": 0.0, "stage1": 0.0}))
    assert trained() == {name for name in everything if not name.startswith(("stem", "stage1"))}
    parameters.set_rates({})
    assert trained() == everything
