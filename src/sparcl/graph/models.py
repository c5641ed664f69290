"""The networks that can be chosen by name. A model is a function from (image shape, classes, width) to a graph."""

from collections.abc import Callable, Sequence

from sparcl.errors import SparclError
from sparcl.graph.builder import GraphBuilder
from sparcl.graph.graph import Graph
from sparcl.hints import did_you_mean
from sparcl.operations import Add, BatchNorm, Conv, Dropout, GlobalAveragePool, Linear, MaxPool, Relu, Relu6, Shape
from sparcl.operations.dropout import STEPS


def resnet18(image_shape: Shape, classes: int, width: int) -> Graph:
    """ResNet-18 for small images: 3x3 stem of stride 1, no max-pool, four stages of two blocks, widths doubling."""
    build = GraphBuilder(image_shape)
    x = build("stem.conv", Conv(width), build.input)
    x = build("stem.relu", Relu(), build("stem.bn", BatchNorm(), x))
    for stage in range(4):
        for block in range(2):
            stride = 2 if stage > 0 and block == 0 else 1
            names = _BlockNames(f"stage{stage + 1}.block{block + 1}", "shortcut.conv", "shortcut.bn")
            x = _basic_block(build, names, x, width << stage, stride)
    return build.finish(build("classifier", Linear(classes), build("pool", GlobalAveragePool(), x)))


class _BlockNames:
    def __init__(self, block: str, shortcut: str, shortcut_norm: str) -> None:
        self.block = block
        self.shortcut, self.shortcut_norm = f"{block}.{shortcut}", f"{block}.{shortcut_norm}"


def _basic_block(build: GraphBuilder, names: _BlockNames, source: str, channels: int, stride: int) -> str:
    name = names.block
    x = build(f"{name}.conv1", Conv(channels, stride=stride), source)
    x = build(f"{name}.relu1", Relu(), build(f"{name}.bn1", BatchNorm(), x))
    x = build(f"{name}.bn2", BatchNorm(), build(f"{name}.conv2", Conv(channels), x))
    shortcut = source
    if stride != 1:
        shortcut = build(names.shortcut, Conv(channels, kernel=1, stride=stride), source)
        shortcut = build(names.shortcut_norm, BatchNorm(), shortcut)
    return build(f"{name}.relu2", Relu(), build(f"{name}.add", Add(), x, shortcut))


def _imagenet_resnet(image_shape: Shape, classes: int, width: int, blocks: Sequence[int]) -> Graph:
    """7x7 stem of stride 2, overlapping max-pool, basic blocks; names as in torchvision, so that its weights fit."""
    build = GraphBuilder(image_shape)
    x = build("conv1", Conv(width, kernel=7, stride=2), build.input)
    x = build("relu", Relu(), build("bn1", BatchNorm(), x))
    x = build("maxpool", MaxPool(kernel=3, stride=2, padding=1), x)
    for stage, count in enumerate(blocks):
        for block in range(count):
            stride = 2 if stage > 0 and block == 0 else 1
            names = _BlockNames(f"layer{stage + 1}.{block}", "downsample.0", "downsample.1")
            x = _basic_block(build, names, x, width << stage, stride)
    return build.finish(build("fc", Linear(classes), build("avgpool", GlobalAveragePool(), x)))


def imagenet_resnet18(image_shape: Shape, classes: int, width: int) -> Graph:
    """ResNet-18 for photos of about 224 pixels a side (width 64)."""
    return _imagenet_resnet(image_shape, classes, width, (2, 2, 2, 2))


def imagenet_resnet34(image_shape: Shape, classes: int, width: int) -> Graph:
    """ResNet-34 for photos of about 224 pixels a side (width 64)."""
    return _imagenet_resnet(image_shape, classes, width, (3, 4, 6, 3))


# MobileNetV2's blocks: (expansion, channels at width 32, how many, stride of the first).
_INVERTED_RESIDUALS = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
MOBILENET_DROPOUT = STEPS // 5


def mobilenet_v2(image_shape: Shape, classes: int, width: int) -> Graph:
    """MobileNetV2 (width 32; others scale every layer): names as in torchvision, so that its weights fit."""
    build = GraphBuilder(image_shape)

    def scaled(channels: int) -> int:
        """A multiple of 8 near the scaled number, never a tenth below it, as the authors round."""
        wanted = channels * width / 32
        rounded = max(8, int(wanted + 4) // 8 * 8)
        return rounded + 8 if rounded < 0.9 * wanted else rounded

    def layer(name: str, operation: Conv, source: str, norm: str, activation: str = "") -> str:
        x = build(norm, BatchNorm(), build(name, operation, source))
        return build(activation, Relu6(), x) if activation else x

    channels = scaled(32)
    x = layer("features.0.0", Conv(channels, stride=2), build.input, "features.0.1", "features.0.2")
    number = 1
    for expansion, base, count, first_stride in _INVERTED_RESIDUALS:
        out = scaled(base)
        for block in range(count):
            stride = first_stride if block == 0 else 1
            source, hidden, name, place = x, channels * expansion, f"features.{number}.conv", 0
            if expansion != 1:
                expand = Conv(hidden, kernel=1)
                x = layer(f"{name}.0.0", expand, x, f"{name}.0.1", f"{name}.0.2")
                place = 1
            depthwise = Conv(hidden, stride=stride, groups=hidden)
            x = layer(f"{name}.{place}.0", depthwise, x, f"{name}.{place}.1", f"{name}.{place}.2")
            x = layer(f"{name}.{place + 1}", Conv(out, kernel=1), x, f"{name}.{place + 2}")
            if stride == 1 and channels == out:
                x = build(f"features.{number}.add", Add(), x, source)
            channels, number = out, number + 1
    last = max(1280, scaled(1280))
    x = layer(f"features.{number}.0", Conv(last, kernel=1), x, f"features.{number}.1", f"features.{number}.2")
    x = build("classifier.0", Dropout(MOBILENET_DROPOUT), build("pool", GlobalAveragePool(), x))
    return build.finish(build("classifier.1", Linear(classes), x))


def convnet(image_shape: Shape, classes: int, width: int) -> Graph:
    """A small plain network: four 3x3 convolutions with batch normalisation, for small images and quick trials."""
    build = GraphBuilder(image_shape)
    x = build.input
    for layer, channels in enumerate((width, width, 2 * width, 2 * width), start=1):
        x = build(f"conv{layer}", Conv(channels, stride=2 if layer == 3 else 1), x)
        x = build(f"relu{layer}", Relu(), build(f"bn{layer}", BatchNorm(), x))
    return build.finish(build("classifier", Linear(classes), build("pool", GlobalAveragePool(), x)))


MAX_WIDTH = 1024
MODELS: dict[str, Callable[[Shape, int, int], Graph]] = {
    "resnet18": resnet18,
    "convnet": convnet,
    "mobilenet_v2": mobilenet_v2,
    "imagenet_resnet18": imagenet_resnet18,
    "imagenet_resnet34": imagenet_resnet34,
}


def build_model(name: str, image_shape: Shape, classes: int, width: int) -> Graph:
    if name not in MODELS:
        raise SparclError(f"There is no model called {name!r}{did_you_mean(name, list(MODELS))}")
    return MODELS[name](image_shape, classes, width)
