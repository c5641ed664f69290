"""The networks that can be chosen by name. A model is a function from (image shape, classes, width) to a graph."""

from collections.abc import Callable

from sparcl.errors import SparclError
from sparcl.graph.builder import GraphBuilder
from sparcl.graph.graph import Graph, Shape
from sparcl.hints import did_you_mean


def resnet18(image_shape: Shape, classes: int, width: int) -> Graph:
    """ResNet-18 for small images: 3x3 stem of stride 1, no max-pool, four stages of two blocks, widths doubling."""
    build = GraphBuilder(image_shape)
    x = build.conv("stem.conv", build.input, width)
    x = build.relu("stem.relu", build.batch_norm("stem.bn", x))
    for stage in range(4):
        for block in range(2):
            stride = 2 if stage > 0 and block == 0 else 1
            x = _basic_block(build, f"stage{stage + 1}.block{block + 1}", x, width << stage, stride)
    return build.finish(build.linear("classifier", build.global_average_pool("pool", x), classes))


def _basic_block(build: GraphBuilder, name: str, source: str, channels: int, stride: int) -> str:
    x = build.conv(f"{name}.conv1", source, channels, stride=stride)
    x = build.relu(f"{name}.relu1", build.batch_norm(f"{name}.bn1", x))
    x = build.batch_norm(f"{name}.bn2", build.conv(f"{name}.conv2", x, channels))
    shortcut = source
    if stride != 1:
        shortcut = build.conv(f"{name}.shortcut.conv", source, channels, kernel=1, stride=stride)
        shortcut = build.batch_norm(f"{name}.shortcut.bn", shortcut)
    return build.relu(f"{name}.relu2", build.add(f"{name}.add", x, shortcut))


def convnet(image_shape: Shape, classes: int, width: int) -> Graph:
    """A small plain network: four 3x3 convolutions with batch normalisation, for small images and quick trials."""
    build = GraphBuilder(image_shape)
    x = build.input
    for layer, channels in enumerate((width, width, 2 * width, 2 * width), start=1):
        x = build.conv(f"conv{layer}", x, channels, stride=2 if layer == 3 else 1)
        x = build.relu(f"relu{layer}", build.batch_norm(f"bn{layer}", x))
    return build.finish(build.linear("classifier", build.global_average_pool("pool", x), classes))


MAX_WIDTH = 1024
MODELS: dict[str, Callable[[Shape, int, int], Graph]] = {"resnet18": resnet18, "convnet": convnet}


def build_model(name: str, image_shape: Shape, classes: int, width: int) -> Graph:
    if name not in MODELS:
        raise SparclError(f"There is no model called {name!r}{did_you_mean(name, list(MODELS))}")
    return MODELS[name](image_shape, classes, width)
