"""All numbers of a network, each kind in one flat array and viewed by name.

Flat, so that a step of gradient descent, a checkpoint or a norm is one operation over one array. A convolution's weight
[out, in, ky, kx] lies in memory as [out, ky, kx, in], the order in which dense convolutions are fastest on CPUs; the
view by name has the usual order of axes.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sparcl.graph import Graph, ParameterSpec


class FlatStore:
    """Named blocks in one flat array."""

    def __init__(self, specs: list[ParameterSpec], dtype: DTypeLike = np.float32) -> None:
        self.specs = {spec.name: spec for spec in specs}
        self.flat: NDArray[np.floating] = np.zeros(sum(spec.size for spec in specs), dtype)
        self.slices: dict[str, slice] = {}
        start = 0
        for spec in specs:
            self.slices[spec.name] = slice(start, start + spec.size)
            start += spec.size

    def __iter__(self) -> Iterator[str]:
        return iter(self.specs)

    def __getitem__(self, name: str) -> NDArray[np.floating]:
        """A writable view of one block."""
        block = self.flat[self.slices[name]]
        shape = self.specs[name].shape
        if len(shape) == 4:
            out, into, height, width = shape
            return block.reshape(out, height, width, into).transpose(0, 3, 1, 2)
        return block.reshape(shape)


class Parameters:
    """Values and gradients of everything that is trained, and the running statistics of batch normalisations."""

    def __init__(self, graph: Graph, dtype: DTypeLike = np.float32) -> None:
        self.values = FlatStore(graph.parameters(), dtype)
        self.gradients = FlatStore(graph.parameters(), dtype)
        self.statistics = FlatStore(graph.statistics(), dtype)
        for name in self.statistics:
            if name.endswith("running_var"):
                self.statistics[name][...] = 1.0

    def initialise(self, graph: Graph, generator: np.random.Generator) -> None:
        """PyTorch's default: weights and biases uniform in +-1/sqrt(fan-in), batch normalisation the identity."""
        for node in graph:
            specs = graph.parameters_of(node)
            if node.op == "batch_norm":
                self.values[f"{node.name}.weight"][...] = 1.0
                self.values[f"{node.name}.bias"][...] = 0.0
            elif specs:
                bound = (specs[0].size / specs[0].shape[0]) ** -0.5
                for spec in specs:
                    self.values[spec.name][...] = generator.uniform(-bound, bound, spec.shape)
