"""Torch modules as graphs: the same logits, gradients and statistics as the module itself, in float64; and refusals."""

import copy
import re
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import sparcl
from sparcl.errors import SparclError
from sparcl.network.torch import TorchNetwork

CLASSES = 5


def conv(into, out, kernel=3, stride=1, bias=False):
    return nn.Conv2d(into, out, kernel, stride, kernel // 2, bias=bias)


def vgg(batch_norm=True, hidden=()):
    """Down to 1x1 pixels, flattened without a pooling; perhaps with hidden linear layers."""
    layers, into = [], 3
    for out in (4, 6, 8):
        layers += [conv(into, out, bias=not batch_norm)] + [nn.BatchNorm2d(out)] * batch_norm
        layers += [nn.ReLU(inplace=True), nn.MaxPool2d(2)]
        into = out
    layers.append(nn.Flatten())
    for out in hidden:
        layers += [nn.Linear(into, out), nn.ReLU(), nn.Dropout(0.0)]
        into = out
    return nn.Sequential(*layers, nn.Linear(into, CLASSES))


class Basic(nn.Module):
    """A block of ResNet-18 or ResNet-20, in the style of torchvision: one ReLU layer called twice, += in forward."""

    expansion = 1

    def __init__(self, into, width, stride):
        super().__init__()
        self.conv1, self.bn1 = conv(into, width, stride=stride), nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.conv2, self.bn2 = conv(width, width), nn.BatchNorm2d(width)
        self.downsample = shortcut(into, width, stride)

    def forward(self, x):
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1, written with functions."""

    expansion = 4

    def __init__(self, into, width, stride):
        super().__init__()
        self.conv1, self.bn1 = conv(into, width, 1), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = conv(width, width, stride=stride), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = conv(width, 4 * width, 1), nn.BatchNorm2d(4 * width)
        self.downsample = shortcut(into, 4 * width, stride) or nn.Identity()

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = torch.relu(self.bn2(self.conv2(out)))
        return torch.add(self.bn3(self.conv3(out)), self.downsample(x)).relu_()


def shortcut(into, out, stride):
    if stride == 1 and into == out:
        return None
    return nn.Sequential(nn.Conv2d(into, out, 1, stride, bias=False), nn.BatchNorm2d(out))


class ResNet(nn.Module):
    def __init__(self, block, blocks, width):
        super().__init__()
        self.conv1, self.bn1 = conv(3, width), nn.BatchNorm2d(width)
        stages, into = [], width
        for stage, count in enumerate(blocks):
            layers = []
            for index in range(count):
                out = width << stage
                layers.append(block(into, out, 2 if stage and not index else 1))
                into = out * block.expansion
            stages.append(nn.Sequential(*layers))
        self.layers = nn.ModuleList(stages)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(into, CLASSES)

    def forward(self, x, features=False):
        x = F.relu(self.bn1(self.conv1(x)))
        for layer in self.layers:
            x = layer(x)
        x = torch.flatten(self.avgpool(x), 1)
        return x if features else self.fc(x)


def randomised(module):
    """In float64, with batch normalisations that are not the identity."""
    torch.manual_seed(1)
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        if not name.endswith("num_batches_tracked"):
            nn.init.uniform_(tensor, 0.5, 1.5) if tensor.dim() == 1 else nn.init.kaiming_normal_(tensor)
    return module.double()


def assert_same(module, shape=(3, 8, 8), batch=4):
    module = randomised(module)
    graph, parameters = sparcl.from_torch(module, shape)
    network = TorchNetwork(graph, parameters)
    rng = np.random.default_rng(2)
    images, d_logits = rng.normal(size=(batch, *shape)), rng.normal(size=(batch, CLASSES))
    assert graph.input_shape == shape and graph.classes == CLASSES
    assert set(parameters.values) == {name for name, _ in module.named_parameters()}

    module.eval()
    expected = module(torch.tensor(images)).detach().numpy()
    np.testing.assert_allclose(network.predict(images), expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())

    module.train()
    expected = module(torch.tensor(images))
    expected.backward(torch.from_numpy(d_logits))
    logits, context = network.forward(images)
    network.backward(context, d_logits)
    np.testing.assert_allclose(logits, expected.detach().numpy(), rtol=1e-8, atol=1e-8)
    for name, tensor in module.named_parameters():
        np.testing.assert_allclose(parameters.gradients[name], tensor.grad.numpy(), rtol=1e-6, atol=1e-6, err_msg=name)
    for name in parameters.statistics:
        np.testing.assert_allclose(parameters.statistics[name], module.get_buffer(name).numpy(), rtol=1e-9)
    return graph


@pytest.mark.parametrize("hidden", [(), (7, 6)])
@pytest.mark.parametrize("batch_norm", [True, False])
def test_vgg(batch_norm, hidden):
    assert_same(vgg(batch_norm, hidden))


def test_resnet18():
    graph = assert_same(ResNet(Basic, (2, 2, 2, 2), 4), (3, 16, 16))
    names = [node.name for node in graph]
    assert "layers.1.0.downsample.0" in names and "add_7" in names
    assert [name for name in names if name.startswith("layers.0.0.relu")] == ["layers.0.0.relu", "layers.0.0.relu_1"]


def test_resnet20():
    graph = assert_same(ResNet(Basic, (3, 3, 3), 4), (3, 15, 12))
    assert sum(node.op.name == "conv" and node.op.kernel == 3 for node in graph) + 1 == 20


def test_resnet_with_bottlenecks():
    assert_same(ResNet(Bottleneck, (2, 1, 1), 3), (3, 9, 9))


class Net(nn.Module):
    """A small network whose last part is given: from maps of 6 channels and 4x4 pixels to 6 features."""

    def __init__(self, head):
        super().__init__()
        self.conv, self.bn = conv(3, 6, stride=2), nn.BatchNorm2d(6)
        self.head, self.pool = head, nn.Sequential(nn.AvgPool2d(4), nn.Flatten())
        self.fc = nn.Linear(6, CLASSES)

    def forward(self, x):
        return self.fc(self.head(self, self.bn(self.conv(x))))


HEADS = {
    "mean": lambda net, x: x.mean((2, 3)),
    "mean, negative axes": lambda net, x: torch.mean(x, dim=[-1, -2]),
    "mean, kept axes": lambda net, x: x.mean((2, 3), keepdim=True).flatten(1),
    "adaptive, flatten": lambda net, x: F.adaptive_avg_pool2d(x, 1).flatten(start_dim=1),
    "adaptive, view": lambda net, x: F.adaptive_avg_pool2d(x, (1, 1)).view(x.size(0), -1),
    "adaptive, view of known size": lambda net, x: F.adaptive_avg_pool2d(x, 1).view(-1, 6),
    "adaptive, reshape": lambda net, x: torch.reshape(F.adaptive_avg_pool2d(x, 1), (x.shape[0], x.size()[1])),
    "pooled twice": lambda net, x: F.adaptive_avg_pool2d(x, 1).mean((2, 3)),
    "average of the whole map": lambda net, x: F.avg_pool2d(x, 4).contiguous().view(x.size(0), -1),
    "average of its size": lambda net, x: F.avg_pool2d(x, x.size()[2:]).flatten(1),
    "average of its size, unpacked": lambda net, x: F.avg_pool2d(x, x.size(3)).view(x.shape[0], x.shape[1]),
    "layers": lambda net, x: net.pool(x),
    "relu after the pooling": lambda net, x: F.relu(F.adaptive_avg_pool2d(x, 1), inplace=True).flatten(1),
    "max pooling": lambda net, x: F.max_pool2d(x, 2, 2).mean((2, 3)),
    "max pooling to 1x1": lambda net, x: torch.max_pool2d(x, (4, 4)).flatten(1),
    "dropout that does nothing": lambda net, x: F.dropout(x.mean((2, 3)), 0.0, net.training),
    "a dead branch": lambda net, x: (torch.sigmoid(x), x.mean((2, 3)))[1],
    "additions": lambda net, x: torch.add(x, F.relu(x), alpha=1).add(x).mean((2, 3)),
    # In place: what is read later is the overwritten tensor.
    "relu in place": lambda net, x: (F.relu(x, inplace=True) + x).mean((2, 3)),
    "addition in place": lambda net, x: (x.add_(F.relu(x)) + x).mean((2, 3)),
    "relu in place on a view": lambda net, x: (lambda y: y.flatten(1).relu_() + y.flatten(1))(F.avg_pool2d(x, 4)),
}


@pytest.mark.parametrize("head", HEADS)
def test_spellings(head):
    assert_same(Net(HEADS[head]))


def test_names_that_collide():
    """Parameters are named as in the module, whatever its layers are called and torch.fx calls its operations."""

    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.relu, self.relu_1, self.add = conv(3, 4), conv(4, 4), conv(4, 4)
            self.act, self.act_1, self.fc = nn.ReLU(), conv(4, 4), nn.Linear(4, CLASSES)

        def forward(self, x):
            x = F.relu(F.relu(self.relu(x)))
            x = self.act(self.act(self.relu_1(x)))
            return self.fc((self.add(self.act_1(x)) + x).mean((2, 3)))

    with pytest.raises(SparclError, match=re.escape("has in_channels=3, but its input has the shape (1, 8, 8)")):
        sparcl.from_torch(Named(), (1, 8, 8))
    module = Named()
    for layer in (module.relu, module.relu_1, module.add, module.act_1):
        layer.bias = nn.Parameter(torch.zeros(4))
    assert_same(module)


def test_the_numbers_are_copies_of_the_modules_type_and_the_module_is_left_alone():
    module = vgg()
    module[0].eval()
    before, modes = copy.deepcopy(module.state_dict()), [layer.training for layer in module.modules()]
    _, parameters = sparcl.from_torch(module, (3, 8, 8))
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
    assert [layer.training for layer in module.modules()] == modes
    stores = (parameters.values, parameters.statistics)
    assert all(store.flat.dtype == np.float32 for store in stores)
    with torch.no_grad():
        for tensor in (*module.parameters(), *module.buffers()):
            tensor.add_(1)
    for store in stores:
        for name in store:
            np.testing.assert_array_equal(store[name], before[name].numpy())


# What is refused


def layers(*middle, channels=4, size=1):
    """A network with layers in its middle; the layer under test is called 1."""
    return nn.Sequential(conv(3, 4), *middle, nn.AdaptiveAvgPool2d(size), nn.Flatten(), nn.Linear(channels, CLASSES))


def shared(first, second):
    second.weight = first.weight
    return first, second


def frozen(layer):
    return layer.requires_grad_(False)


def without_bias(layer):
    layer.bias = None
    return layer


def hooked(layer):
    layer.register_forward_pre_hook(lambda *_: None)
    return layer


class Odd(nn.Conv2d):
    pass


TWICE = conv(4, 4)
LAYER = "layer '1'"
REFUSED_LAYERS = {
    "(Conv2d): groups=2 is not supported (only 1, or depthwise": layers(nn.Conv2d(4, 4, 3, padding=1, groups=2)),
    "(Conv2d): kernel_size=(1, 3) is not supported": layers(nn.Conv2d(4, 4, (1, 3), padding=(0, 1))),
    "(Conv2d): stride=(1, 2) is not supported": layers(conv(4, 4, stride=(1, 2))),
    "(Conv2d): dilation=2 is not supported (only dilation=1)": layers(nn.Conv2d(4, 4, 3, padding=1, dilation=2)),
    "(Conv2d): padding_mode='reflect' is not": layers(nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect")),
    "(Conv2d): it has in_channels=5, but its input has the shape (4, 8, 8)": layers(conv(5, 4)),
    "(Conv2d): its weight is frozen (requires_grad=False)": layers(frozen(conv(4, 4))),
    "(Conv2d): forward hooks are not supported": layers(hooked(conv(4, 4))),
    "(Conv2d): padding='same' is not supported for even kernels": layers(nn.Conv2d(4, 4, 4, padding="same")),
    "layer '2' (Conv2d): it is padded by (1, 1, 0, 0) before": layers(nn.ZeroPad2d((1, 1, 0, 0)), conv(4, 4)),
    "layer '2' (ReLU): zeros are put around its input": layers(nn.ZeroPad2d(1), nn.ReLU()),
    "(BatchNorm2d): momentum=None is not supported": layers(nn.BatchNorm2d(4, momentum=None)),
    "(Dropout): p=1.0 drops everything": layers(nn.Dropout(1.0)),
    "(AvgPool2d): ceil_mode=True is not supported": layers(nn.AvgPool2d(3, ceil_mode=True)),
    "(AdaptiveAvgPool2d): output_size=3 of a map of 8x8 pixels": layers(nn.AdaptiveAvgPool2d(3)),
    "(BatchNorm2d): bias=False is not supported": layers(without_bias(nn.BatchNorm2d(4))),
    "(BatchNorm2d): affine=False is not supported": layers(nn.BatchNorm2d(4, affine=False)),
    "(BatchNorm2d): track_running_stats=False is": layers(nn.BatchNorm2d(4, track_running_stats=False)),
    "(BatchNorm2d): it has num_features=3, but its input": layers(nn.BatchNorm2d(3)),
    "(GELU): this layer is not supported (only ReLU, ReLU6, Hardswish,": layers(nn.GELU()),
    "(LazyConv2d): this layer is not supported": layers(nn.LazyConv2d(4, 3, padding=1)),
    "(MaxPool2d): kernel_size=(1, 2) is not supported": layers(nn.MaxPool2d((1, 2))),
    "(MaxPool2d): dilation=2 is not supported": layers(nn.MaxPool2d(2, dilation=2)),
    "(MaxPool2d): return_indices=True is not supported": layers(nn.MaxPool2d(2, return_indices=True)),
    "(MaxPool2d): node '1' would have the impossible shape": layers(nn.MaxPool2d(9)),
    "(AvgPool2d): divisor_override=3 is not supported": layers(nn.AvgPool2d(8, divisor_override=3)),
    "(Flatten): start_dim=2 is not supported (only start_dim=1)": layers(nn.Flatten(2)),
    "(Linear): bias=False is not supported (only bias=True)": layers(nn.Linear(8, 8, bias=False)),
    "(Linear): its input has the shape (4, 8, 8) and must be pooled": layers(nn.Linear(8, 8)),
    "(ConvTranspose2d): this layer is not supported": layers(nn.ConvTranspose2d(4, 4, 3)),
    "layer '2' (Conv2d): its weight is used a second time (first by '1')": layers(*shared(conv(4, 4), conv(4, 4))),
    "layer '1' (Conv2d): its weight is used a second time": layers(TWICE, nn.ReLU(), TWICE),
    "layer '2' (Conv2d): it follows a global pooling": layers(nn.AdaptiveAvgPool2d(1), conv(4, 4, 1)),
    "layer '4' (Linear): it has in_features=9": layers(nn.ReLU(), channels=9),
    "operation '_1_weight' of '1' (Odd): the tensor '1.weight' is used directly": layers(Odd(4, 4, 3, padding=1)),
}


@pytest.mark.parametrize("message", REFUSED_LAYERS)
def test_unsupported_layers_are_named(message):
    with pytest.raises(SparclError) as caught:
        sparcl.from_torch(REFUSED_LAYERS[message], (3, 8, 8))
    expected = message if message.startswith(("layer", "operation")) else f"from_torch cannot take {LAYER} {message}"
    assert expected in str(caught.value) and "\n" not in str(caught.value)


def only_in_training(net, x):
    return (F.relu(x) if net.training else x).mean((2, 3))


def depends_on_data(net, x):
    return x.mean((2, 3)) if x.sum() > 0 else -x.mean((2, 3))


def overwritten_unseen(net, x):
    y = x
    y += F.relu(x)  # also changes x, which torch.fx does not see
    return (x + y).mean((2, 3))


REFUSED_OPERATIONS = {
    "operation 'sigmoid' of Net: sigmoid is not supported (only relu,": lambda net, x: torch.sigmoid(x).mean((2, 3)),
    "of Net: the tensor 'conv.weight' is used directly": lambda net, x: F.conv2d(x, net.conv.weight),
    "operation 'softmax' of Net: softmax is not supported": lambda net, x: F.softmax(x.mean((2, 3)), 1),
    "of Net: permute is not supported": lambda net, x: x.permute(0, 2, 3, 1).mean((1, 2)),
    "operation 'add' of Net: alpha=2 is not supported": lambda net, x: torch.add(x, x, alpha=2).mean((2, 3)),
    "operation 'add' of Net: only two tensors can be added": lambda net, x: (x + 1).mean((2, 3)),
    "(6, 1, 1) cannot be added": lambda net, x: (x + F.adaptive_avg_pool2d(x, 1)).mean((2, 3)),
    "of Net: its arguments are not supported": lambda net, x: torch.add(x, x, out=None).mean((2, 3)),
    "operation 'mean' of Net: dim=2 is not supported (only dim=(2, 3))": lambda net, x: x.mean(2).mean(2),
    "operation 'mean' of Net: dim=None is not supported": lambda net, x: x.mean(),
    "operation 'flatten' of Net: start_dim=0": lambda net, x: torch.flatten(x.mean((2, 3))),
    "operation 'view' of Net: the shape (4, -1) is not supported": lambda net, x: x.mean((2, 3)).view(4, -1),
    "operation 'getitem' of Net: tensors cannot be indexed": lambda net, x: x[:, :, 0, 0],
    "attribute='T' is not supported": lambda net, x: x.mean((2, 3)).T,
    "torch.fx cannot trace Net: symbolically traced variables cannot be used as inputs to control": depends_on_data,
    "cannot take Net: its forward does one thing in training and another in evaluation": only_in_training,
    "cannot take Net: torch.fx traced something else than it computes": overwritten_unseen,
}


@pytest.mark.parametrize("message", REFUSED_OPERATIONS)
def test_unsupported_operations_are_named(message):
    with pytest.raises(SparclError) as caught:
        sparcl.from_torch(Net(REFUSED_OPERATIONS[message]), (3, 8, 8))
    assert message in str(caught.value) and "\n" not in str(caught.value)


class Returning(nn.Module):
    def __init__(self, result):
        super().__init__()
        self.inner, self.result = layers(), result

    def forward(self, x):
        return self.result(self.inner(x))


class TwoInputs(Returning):
    def forward(self, x, y):
        return self.inner(x + y)


@pytest.mark.parametrize(
    ("module", "shape", "message"),
    [
        (layers(), (1, 8, 8), r"layer '0' \(Conv2d\): it has in_channels=3, but its input has the shape \(1, 8, 8\)"),
        (layers(), (8, 8), "input_shape must be"),
        (layers(), (3, 8, 0), "input_shape must be"),
        (layers(), 8, "input_shape must be"),
        (layers().half(), (3, 8, 8), "not of torch.float16"),
        (layers().to("meta"), (3, 8, 8), "cannot copy Sequential"),
        (layers, (3, 8, 8), "takes a torch.nn.Module, not a function"),
        (
            nn.Sequential(conv(3, 4), nn.ReLU()),
            (3, 8, 8),
            r"return logits, .* '1' \(relu\) makes a map",
        ),
        (Returning(lambda y: (y, y)), (3, 8, 8), "return one tensor"),
        (Returning(lambda y: {"logits": y}), (3, 8, 8), "return one tensor"),
        (Returning(lambda y: y.size(1)), (3, 8, 8), "return one tensor"),
        (TwoInputs(None), (3, 8, 8), "one input, but forward also needs 'y'"),
    ],
)
def test_wrong_shapes_and_outputs_are_refused(module, shape, message):
    with pytest.raises(SparclError, match=message) as caught:
        sparcl.from_torch(module, shape)
    assert "\n" not in str(caught.value)


# Without torch


def python(code, cwd=None):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=cwd, timeout=300)


def test_the_package_does_not_import_torch():
    finished = python(
        "import sys, sparcl, sparcl.network.from_torch; sparcl.from_torch; assert 'torch' not in sys.modules"
    )
    assert finished.returncode == 0, finished.stderr


def test_without_torch_the_error_says_what_to_install():
    finished = python("import sys, sparcl; sys.modules['torch'] = None; sparcl.from_torch(None, (3, 8, 8))")
    assert finished.stderr.strip().endswith('pip install "sparcl-edge[torch]"')
    assert "SparclError" in finished.stderr


def test_the_page_runs(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "bring-your-network.md").read_text()
    model, training = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    (tmp_path / "my_net.py").write_text(model)
    for command in re.findall(r"^sparcl (.*)$", page, flags=re.MULTILINE):
        words = [*command.split(), "--set", "data.tasks=2", "--set", "epochs=1", "--set", "threads=1", "--quiet"]
        run = [sys.executable, "-m", "sparcl.cli.main", *words]
        finished = subprocess.run(run, capture_output=True, text=True, cwd=tmp_path, timeout=300)
        assert finished.returncode == 0, finished.stderr
    finished = python("import torch; torch.set_num_threads(1)\n" + training, tmp_path)
    assert finished.returncode == 0, finished.stderr
    grouped = nn.Sequential(conv(3, 4), nn.ReLU(), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1, groups=2))
    errors = re.search(r"```\n(from_torch.*?)```", page, flags=re.DOTALL)[1].splitlines()
    for message, module, shape in zip(
        errors,
        (
            nn.Sequential(OrderedDict(features=grouped)),
            nn.Sequential(OrderedDict(pool=nn.MaxPool2d(2, dilation=2))),
            nn.Sequential(OrderedDict(conv1=conv(3, 4))),
            Net(depends_on_data),
        ),
        [(3, 8, 8), (3, 8, 8), (1, 8, 8), (3, 8, 8)],
        strict=True,
    ):
        with pytest.raises(SparclError, match=f"^{re.escape(message)}$"):
            sparcl.from_torch(module, shape)
