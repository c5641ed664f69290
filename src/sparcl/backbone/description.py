"""The layers of a backbone as JSON, and back: checked entirely, for a file may come from anywhere.

    {"name": "features.0.0", "op": "conv", "inputs": ["input"], "channels": 32, "kernel": 3, "stride": 2, ...}

A layer names an operation and its attributes; shapes are not stored. They follow from the size of the pictures, so one
backbone takes pictures of several sizes.
"""

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparcl import operations
from sparcl.compiler import unsupported
from sparcl.graph import Graph, GraphBuilder
from sparcl.operations import Affine, Input, Linear, Operation
from sparcl.weights.file import UnusableError, shown

CHANNELS = 3
MIN_SIZE, MAX_SIZE = 8, 1024  # of pictures
MAX_LAYERS = 4096
MAX_INPUTS = 64  # of one layer
MAX_FEATURES = 8192  # a learner keeps as many numbers as their square
MAX_MAP = 1 << 26  # numbers of one layer's output for one picture
MAX_MAPS = 1 << 29  # of all layers together
MAX_MACS = 1 << 40
MAX_LEVEL = 1000.0  # of means and deviations of pixels
NAME = re.compile(r"[\w./-]{1,200}", re.ASCII)
INPUT = "input"

OPERATIONS: dict[str, type[Operation]] = {
    kind.name: kind
    for kind in vars(operations).values()
    if isinstance(kind, type) and issubclass(kind, Operation) and kind not in (Operation, Input, Affine)
}
# What an attribute may be, by its name; whole numbers that are not listed are at most 2^20.
LIMITS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("channels", "features", "groups"), (1, 1 << 16)),
    **dict.fromkeys(("kernel", "stride"), (1, 1024)),
    **dict.fromkeys(("padding", "padding_after"), (0, 1024)),
    "share": (0, (1 << 16) - 1),
    "epsilon": (1e-12, 1.0),
    "momentum": (0.0, 1.0),
}
OTHER_LIMITS = (0, 1 << 20)


@dataclass(frozen=True)
class Layer:
    name: str
    op: Operation
    inputs: tuple[str, ...]


Layers = tuple[Layer, ...]  # the last one makes the features, a vector


def layers_to_json(layers: Layers) -> list[dict[str, Any]]:
    return [
        {"name": layer.name, "op": layer.op.name, "inputs": list(layer.inputs), **dataclasses.asdict(layer.op)}
        for layer in layers
    ]


def layers_from_json(content: Any) -> Layers:
    """Raises UnusableError. Whether the layers fit together is known once they are built."""
    if not isinstance(content, list) or not content:
        raise UnusableError("has no list of layers")
    if len(content) > MAX_LAYERS:
        raise UnusableError(f"has more than {MAX_LAYERS:,} layers")
    return tuple(_layer(entry) for entry in content)


def _layer(entry: Any) -> Layer:
    if not isinstance(entry, dict):
        raise UnusableError("has a layer that is not described")
    name, kind, inputs = (entry.get(key) for key in ("name", "op", "inputs"))
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise UnusableError(f"has a layer whose name cannot be used: {shown(str(name))}")
    operation = OPERATIONS.get(kind) if isinstance(kind, str) else None
    if operation is None:
        raise UnusableError(f"has in {name} an operation that is not known here: {shown(str(kind))}")
    if not isinstance(inputs, list) or not all(isinstance(one, str) for one in inputs):
        raise UnusableError(f"does not say what {name} reads")
    if len(inputs) > MAX_INPUTS or len(inputs) != (operation.inputs or max(1, len(inputs))):
        raise UnusableError(f"has in {name} an operation that reads {len(inputs)} layers, and cannot")
    attributes = {key: value for key, value in entry.items() if key not in ("name", "op", "inputs")}
    return Layer(name, _operation(name, operation, attributes), tuple(inputs))


def _operation(name: str, kind: type[Operation], attributes: Mapping[str, Any]) -> Operation:
    types = {field.name: field.type for field in dataclasses.fields(kind)}
    if attributes.keys() != types.keys():
        raise UnusableError(f"has in {name} other attributes than {kind.name} has here")
    for attribute, value in attributes.items():
        wanted = types[attribute]
        least, greatest = LIMITS.get(attribute, OTHER_LIMITS)
        fits = isinstance(value, bool) if wanted is bool else type(value) is int or (wanted is float and _finite(value))
        if not fits or (wanted is not bool and not least <= value <= greatest):
            raise UnusableError(f"has in {name} an impossible {attribute}: {shown(str(value))}")
    try:
        return kind(**attributes)
    except ValueError as problem:
        raise UnusableError(f"has in {name} impossible attributes: {shown(str(problem), 100)}") from problem


def _finite(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value)


def build(layers: Layers, size: int, classes: int) -> Graph:
    """The graph for pictures of this size, with a new classifier behind the features; raises UnusableError."""
    builder, numbers = GraphBuilder((CHANNELS, size, size)), 0
    for layer in layers:
        try:
            builder(layer.name, layer.op, *layer.inputs)
        except KeyError as missing:
            raise UnusableError(
                f"has in {layer.name} an input that does not exist: {shown(str(missing.args[0]))}"
            ) from missing
        except ValueError as problem:
            raise UnusableError(f"does not fit together: {shown(str(problem), 200)}") from problem
        outputs = math.prod(builder.shape(layer.name))
        numbers += outputs
        if outputs > MAX_MAP or numbers > MAX_MAPS:
            raise UnusableError(f"has maps in {layer.name} that are too large")
    features = layers[-1].name
    shape = builder.shape(features)
    if len(shape) != 1:
        raise UnusableError(f"ends with {features}, whose output is a map and not a vector of features")
    if shape[0] > MAX_FEATURES:
        raise UnusableError(f"has {shape[0]:,} features; at most {MAX_FEATURES:,} can be used")
    graph = builder.finish(builder(classifier_name(layers), Linear(classes), features))
    reason = unsupported(graph)
    if reason is not None:
        raise UnusableError(f"cannot be run by the engine: {reason}")
    if graph.macs() > MAX_MACS:
        raise UnusableError(f"needs more than 2^{MAX_MACS.bit_length() - 1} multiplications for one picture")
    return graph


def classifier_name(layers: Layers) -> str:
    """ "classifier", if no layer is called so."""
    name, taken = "classifier", {layer.name for layer in layers}
    while name in taken:
        name += "_"
    return name


def feature_layers(graph: Graph, features: str | None) -> Layers:
    """The layers of a graph that make its features: all before its classifier, or up to the node that is named.

    A map is averaged to a vector; dropouts at the end are left out, and so is what the features do not depend on.
    """
    names = [node.name for node in graph]
    if features is None:
        last = graph.nodes[-1]
        features = last.inputs[0] if isinstance(last.op, Linear) else last.name
    elif features not in names:
        raise UnusableError(f"has no layer called {shown(str(features))}; it ends with {', '.join(names[-4:])}")
    while isinstance(graph[features].op, operations.Dropout):
        features = graph[features].inputs[0]
    used = {features}
    for node in reversed(graph.nodes):
        if node.name in used:
            used.update(node.inputs)
    input_name = graph.nodes[0].name
    layers = [
        Layer(node.name, node.op, tuple(INPUT if name == input_name else name for name in node.inputs))
        for node in graph.nodes[1 : names.index(features) + 1]
        if node.name in used
    ]
    if not layers:
        raise UnusableError("has no layers before its classifier")
    if len(graph[features].shape) == 3:
        layers.append(Layer(f"{features}.pool", operations.GlobalAveragePool(), (features,)))
    return tuple(layers)


def check_size(size: Any) -> int:
    if type(size) is not int or not MIN_SIZE <= size <= MAX_SIZE:
        raise UnusableError(f"takes pictures with sides of {MIN_SIZE} to {MAX_SIZE:,} pixels, not {shown(str(size))}")
    return size


def check_channels(values: Any, what: str, least: float) -> tuple[float, ...]:
    """A number for each colour."""
    if not isinstance(values, Sequence) or isinstance(values, str) or len(values) != CHANNELS:
        raise UnusableError(f"needs {CHANNELS} numbers as {what}, one for each colour")
    numbers = [float(value) for value in values if type(value) is int or _finite(value)]
    if len(numbers) != CHANNELS or not all(least <= number <= MAX_LEVEL for number in numbers):
        raise UnusableError(f"has an impossible {what}: {shown(str(list(values)))}")
    return tuple(numbers)
