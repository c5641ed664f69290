"""The torch backend against a plain torch ResNet-18 written here, in float64."""

import numpy as np
import pytest
import torch
from torch import nn

from sparcl.graph import GraphBuilder, build_model
from sparcl.network import Parameters
from sparcl.network.torch import TorchNetwork
from sparcl.operations import Conv, GlobalAveragePool, Linear, MaxPool, Relu


class Block(nn.Module):
    def __init__(self, into, out, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(into, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.bn2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        self.shortcut = None
        if stride != 1:
            self.shortcut = nn.Sequential(nn.Conv2d(into, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + (x if self.shortcut is None else self.shortcut(x)))


class PlainResNet18(nn.Module):
    def __init__(self, classes, width):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        blocks, into = [], width
        for stage, stride in enumerate((1, 2, 2, 2)):
            out = width * 2**stage
            blocks += [Block(into, out, stride), Block(out, out, 1)]
            into = out
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(into, classes)

    def forward(self, x):
        x = self.blocks(torch.relu(self.bn(self.conv(x))))
        return self.fc(x.mean((2, 3)))


def ours_and_plain(width=6, size=16, classes=7):
    torch.manual_seed(0)
    graph = build_model("resnet18", (3, size, size), classes, width)
    plain = PlainResNet18(classes, width).double()
    parameters = Parameters(graph, np.float64)
    # Both list their layers in the same order, but for the shortcut, which comes last in both.
    ours_names, plain_parameters = list(parameters.values), list(plain.parameters())
    assert len(ours_names) == len(plain_parameters)
    for name, tensor in zip(ours_names, plain_parameters, strict=True):
        parameters.values[name][...] = tensor.detach().numpy()
    return TorchNetwork(graph, parameters), plain


def test_forward_and_backward_agree_with_a_plain_resnet():
    ours, plain = ours_and_plain()
    images = np.random.default_rng(1).normal(size=(5, 3, 16, 16))
    d_logits = np.random.default_rng(2).normal(size=(5, 7))
    logits, context = ours.forward(images)
    ours.backward(context, d_logits)
    expected = plain(torch.from_numpy(images))
    expected.backward(torch.from_numpy(d_logits))
    np.testing.assert_allclose(logits, expected.detach().numpy(), atol=1e-6, rtol=1e-6)
    for name, tensor in zip(ours.parameters.values, plain.parameters(), strict=True):
        np.testing.assert_allclose(ours.parameters.gradients[name], tensor.grad.numpy(), atol=1e-6, rtol=1e-6)
    running = [b for n, b in plain.named_buffers() if not n.endswith("num_batches_tracked")]
    for name, tensor in zip(ours.parameters.statistics, running, strict=True):
        np.testing.assert_allclose(ours.parameters.statistics[name], tensor.numpy(), atol=1e-9)
    plain.eval()
    expected = plain(torch.from_numpy(images)).detach().numpy()
    np.testing.assert_allclose(ours.predict(images), expected, atol=1e-6, rtol=1e-6)


def test_several_contexts_are_alive_at_once_and_gradients_add_up():
    ours, plain = ours_and_plain()
    first, second = np.random.default_rng(3).normal(size=(2, 4, 3, 16, 16))
    weights = np.random.default_rng(4).normal(size=(2, 4, 7))
    _, a = ours.forward(first)
    _, b = ours.forward(second)
    ours.backward(b, weights[1])
    ours.backward(a, weights[0])
    for images, weight in ((first, weights[0]), (second, weights[1])):
        plain(torch.from_numpy(images)).backward(torch.from_numpy(weight))
    for name, tensor in zip(ours.parameters.values, plain.parameters(), strict=True):
        np.testing.assert_allclose(ours.parameters.gradients[name], tensor.grad.numpy(), atol=1e-6, rtol=1e-6)


def test_momentum_zero_and_evaluation_leave_the_statistics_alone():
    ours, _ = ours_and_plain()
    images = np.random.default_rng(5).normal(size=(4, 3, 16, 16))
    before = ours.parameters.statistics.flat.copy()
    with_own_statistics, _ = ours.forward(images, train=True, momentum=0.0)
    with_running_statistics, _ = ours.forward(images, train=False)
    np.testing.assert_array_equal(ours.parameters.statistics.flat, before)
    assert not np.allclose(with_own_statistics, with_running_statistics)


def test_gradients_in_evaluation_mode_agree():
    ours, plain = ours_and_plain()
    images = np.random.default_rng(6).normal(size=(4, 3, 16, 16))
    d_logits = np.random.default_rng(7).normal(size=(4, 7))
    plain.eval()
    plain(torch.from_numpy(images)).backward(torch.from_numpy(d_logits))
    _, context = ours.forward(images, train=False)
    ours.backward(context, d_logits)
    for name, tensor in zip(ours.parameters.values, plain.parameters(), strict=True):
        np.testing.assert_allclose(ours.parameters.gradients[name], tensor.grad.numpy(), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("kernel", [2, 3])
def test_every_operation_of_a_graph_runs(kernel):
    build = GraphBuilder((2, 9, 7))
    x = build("conv", Conv(4, bias=True), build.input)
    x = build("pool", MaxPool(kernel), build("relu", Relu(), x))
    graph = build.finish(build("fc", Linear(3), build("mean", GlobalAveragePool(), x)))
    parameters = Parameters(graph, np.float64)
    parameters.initialise(graph, np.random.default_rng(0))
    network = TorchNetwork(graph, parameters)
    images = np.random.default_rng(1).normal(size=(3, 2, 9, 7))
    values = {name: torch.from_numpy(parameters.values[name].copy()) for name in parameters.values}
    y = torch.relu(
        nn.functional.conv2d(torch.from_numpy(images), values["conv.weight"], values["conv.bias"], padding=1)
    )
    y = nn.functional.max_pool2d(y, kernel).mean((2, 3)) @ values["fc.weight"].T + values["fc.bias"]
    np.testing.assert_allclose(network.predict(images), y.numpy(), atol=1e-9)
    assert y.shape[1:] == graph.nodes[-1].shape
