"""Random graphs of every kind of layer, for tests that compare one way to run a graph with another."""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from sparcl.graph import Graph, GraphBuilder
from sparcl.network import Parameters
from sparcl.network.parameters import Index
from sparcl.operations import (
    Add,
    AveragePool,
    BatchNorm,
    Concat,
    Conv,
    Dropout,
    Flatten,
    GlobalAveragePool,
    HardSwish,
    Linear,
    MaxPool,
    Operation,
    Relu,
    Relu6,
)
from sparcl.operations.dropout import STEPS


class RandomGraph:
    """Grows a graph by drawn layers; any earlier node may be read again."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self.draw = draw
        special = st.sampled_from([(4, 4), (8, 8), (7, 7), (1, 1), (16, 16), (3, 17)])
        size = draw(special | st.tuples(st.integers(1, 20), st.integers(1, 20)))
        shape = (draw(st.integers(1, 4)), *size)
        self.build = GraphBuilder(shape)
        self.shapes: dict[str, tuple[int, ...]] = {self.build.input: shape}

    def name(self, kind: str) -> str:
        return f"{kind}{len(self.shapes)}"

    def made(self, name: str, shape: tuple[int, ...]) -> str:
        self.shapes[name] = shape
        return name

    def some_node(self) -> str:
        return self.draw(st.sampled_from([name for name in self.shapes if len(self.shapes[name]) == 3][::-1][:4]))

    def then(self, kind: str, operation: Operation, *sources: str) -> str:
        name = self.build(self.name(kind), operation, *sources)
        return self.made(name, self.build.shape(name))

    def conv(self, source: str, channels: int = 0, kernel: int = 0, stride: int = 0) -> str:
        channels = channels or self.draw(st.integers(1, 8) | st.integers(1, 40))
        kernel = kernel or self.draw(st.sampled_from([3, 1]))
        stride = stride or self.draw(st.sampled_from([1, 2]))
        return self.then("conv", Conv(channels, kernel, stride, bias=self.draw(st.booleans())), source)

    def norm(self, source: str) -> str:
        epsilon, momentum = self.draw(st.sampled_from([(1e-5, 0.1), (1e-3, 0.01)]))
        return self.then("norm", BatchNorm(epsilon, momentum), source)

    def relu(self, source: str) -> str:
        return self.then("relu", self.draw(st.sampled_from([Relu(), Relu(), Relu6(), HardSwish()])), source)

    def add(self, first: str, second: str) -> str:
        return self.then("add", Add(), first, second)

    def maybe(self, layer: Callable[[str], str], source: str) -> str:
        return layer(source) if self.draw(st.booleans()) else source

    def unit(self) -> None:
        self.maybe(self.relu, self.maybe(self.norm, self.conv(self.some_node())))

    def residual(self) -> None:
        source = self.some_node()
        stride = self.draw(st.sampled_from([1, 2]))
        x = self.maybe(self.relu, self.maybe(self.norm, self.conv(source, kernel=3, stride=stride)))
        projects = stride == 2 or self.draw(st.booleans())
        x = self.maybe(self.norm, self.conv(x, 0 if projects else self.shapes[source][0], stride=1))
        if projects:
            shortcut = self.maybe(self.norm, self.conv(source, self.shapes[x][0], kernel=1, stride=stride))
        else:
            shortcut = source
        self.maybe(self.relu, self.add(x, shortcut) if self.draw(st.booleans()) else self.add(shortcut, x))

    def activated_first(self) -> None:
        source = self.some_node()
        x = self.conv(self.relu(self.norm(source)), self.shapes[source][0], kernel=3, stride=1)
        self.add(x, source)

    def sum_of_any(self) -> None:
        first = self.some_node()
        alike = [name for name, shape in self.shapes.items() if shape == self.shapes[first]]
        self.maybe(self.relu, self.add(first, self.draw(st.sampled_from(alike))))

    def single(self) -> None:
        self.draw(st.sampled_from([self.norm, self.relu]))(self.some_node())

    def pool(self) -> None:
        source = self.some_node()
        kernel = self.draw(st.sampled_from([2, 3]))
        stride, padding = self.draw(st.sampled_from([kernel, 1, 2])), self.draw(st.integers(0, kernel // 2))
        if min(self.shapes[source][1:]) + 2 * padding < kernel:
            return
        if self.draw(st.booleans()):
            self.then("pool", MaxPool(kernel, stride, padding, self.draw(st.booleans())), source)
        else:
            self.then("pool", AveragePool(kernel, stride, padding, self.draw(st.booleans())), source)

    def windowed(self) -> None:
        """A depthwise convolution, or a dense one whose window is not of the common kinds."""
        source = self.some_node()
        kernel, stride = self.draw(st.sampled_from([3, 5, 7])), self.draw(st.sampled_from([1, 2, 3]))
        before, after = self.draw(st.integers(0, kernel // 2)), self.draw(st.integers(0, kernel // 2))
        if min(self.shapes[source][1:]) + before + after < kernel:
            return
        channels, bias = self.shapes[source][0], self.draw(st.booleans())
        if channels > 1 and self.draw(st.booleans()):
            operation = Conv(channels, kernel, stride, before, after, channels, bias)
        else:
            operation = Conv(self.draw(st.integers(1, 9)), kernel, stride, before, after, bias=bias)
        self.maybe(self.relu, self.maybe(self.norm, self.then("window", operation, source)))

    def side_by_side(self) -> None:
        first = self.some_node()
        alike = [name for name, shape in self.shapes.items() if shape[1:] == self.shapes[first][1:]]
        others = self.draw(st.lists(st.sampled_from(alike), min_size=1, max_size=2))
        if sum(self.shapes[name][0] for name in (first, *others)) <= 60:
            self.then("concat", Concat(), first, *others)

    def dropout(self) -> None:
        share = self.draw(st.sampled_from([STEPS // 5, STEPS // 2]))
        self.then("dropout", Dropout(share, len(self.shapes)), self.some_node())

    def linear(self, source: str, features: int) -> str:
        return self.then("linear", Linear(features), source)

    def finish(self) -> Graph:
        last = next(reversed(self.shapes))
        if self.draw(st.integers(0, 4)) == 0:  # as SqueezeNet ends
            return self.build.finish(self.then("vector", GlobalAveragePool(), self.conv(last)))
        flat = self.draw(st.booleans()) and np.prod(self.shapes[last]) <= 600
        x = self.then("vector", Flatten() if flat else GlobalAveragePool(), last)
        if self.draw(st.booleans()):
            x = self.relu(self.maybe(self.norm, self.linear(x, self.draw(st.integers(1, 9)))))
        return self.build.finish(self.linear(x, self.draw(st.integers(1, 11))))


@st.composite
def graphs(draw) -> Graph:
    growing = RandomGraph(draw)
    layers = [growing.unit, growing.residual, growing.activated_first, growing.sum_of_any, growing.single, growing.pool]
    layers += [growing.windowed, growing.windowed, growing.side_by_side, growing.dropout]
    for _ in range(draw(st.integers(1, 5))):
        draw(st.sampled_from(layers))()
    return growing.finish()


def convolution_weights(graph: Graph) -> list[str]:
    """Those that may be sparse."""
    return [f"{node.name}.weight" for node in graph if node.op.role == "convolution"]


Sparsity = float | str  # the share of inactive weights; or "dense", "empty rows", "empty"


def random_index(shape: tuple[int, ...], sparsity: float | str, generator: np.random.Generator) -> Index:
    size = int(np.prod(shape))
    if sparsity == "empty":
        return np.zeros(0, np.int32)
    if sparsity == "empty rows":
        active = generator.random(shape) < 0.4
        active[generator.random(shape[0]) < 0.5] = False
        return np.flatnonzero(active)
    return np.sort(generator.choice(size, round(size * (1 - float(sparsity))), replace=False))


def random_parameters(graph: Graph, sparsities: dict[str, Sparsity], generator: np.random.Generator) -> Parameters:
    """Random where a fresh network is not: biases, norms and running statistics; sparse weights as strong as dense."""
    parameters = Parameters(graph)
    parameters.initialise(graph, generator)
    specs = parameters.values.specs
    kept = {name: kind for name, kind in sparsities.items() if kind != "dense"}
    parameters.set_index({name: random_index(specs[name].shape, kind, generator) for name, kind in kept.items()})
    for name, index in parameters.index.items():
        parameters.values[name][...] *= np.sqrt(3 * specs[name].size / max(len(index), 1))
    for name, spec in specs.items():
        if len(spec.shape) == 1:
            parameters.values[name][...] += generator.normal(0, 0.2, spec.shape)
    for name, spec in parameters.statistics.specs.items():
        uniform = generator.uniform(0.4, 1.6, spec.shape)
        if not name.endswith("passes"):
            parameters.statistics[name][...] = uniform if name.endswith("running_var") else uniform - 1
    return parameters
