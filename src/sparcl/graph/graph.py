"""The graph of a network: a list of nodes in the order in which they run.

    input (3,32,32) ──► conv ──► batch_norm ──► relu ──┬──► conv ──► ... ──► add ──► relu ──► ... ──► linear (10,)
                                                       └───────────────────────┘

A node knows its inputs, the shape it produces (without the batch) and which parameters it owns; it holds no numbers.
Every backend runs the same graph, and what is counted (parameters, MACs) is counted here.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Op = Literal["input", "conv", "batch_norm", "relu", "add", "max_pool", "global_average_pool", "linear"]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class ParameterSpec:
    """One named block of numbers: trained by gradient descent, or a running statistic of a batch normalisation."""

    name: str
    shape: Shape

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Node:
    name: str
    op: Op
    inputs: tuple[str, ...]
    shape: Shape
    kernel: int = 1
    stride: int = 1
    padding: int = 0
    bias: bool = False


@dataclass(frozen=True)
class Graph:
    """Nodes in execution order: the first is the input, the last gives the logits."""

    nodes: tuple[Node, ...]

    def __post_init__(self) -> None:
        known: set[str] = set()
        for node in self.nodes:
            missing = [name for name in node.inputs if name not in known]
            if missing or node.name in known:
                raise ValueError(f"node {node.name!r} is defined twice or uses {missing} before they exist")
            known.add(node.name)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __getitem__(self, name: str) -> Node:
        return next(node for node in self.nodes if node.name == name)

    @property
    def input_shape(self) -> Shape:
        return self.nodes[0].shape

    @property
    def classes(self) -> int:
        return self.nodes[-1].shape[0]

    @property
    def classifier(self) -> Node:
        """The last layer, which turns features into logits."""
        return self.nodes[-1]

    def without_classifier(self) -> "Graph":
        """The part that makes the features."""
        return Graph(self.nodes[:-1])

    def parameters_of(self, node: Node) -> list[ParameterSpec]:
        """The trained parameters a node owns."""
        match node.op:
            case "conv":
                weight: Shape = (node.shape[0], self[node.inputs[0]].shape[0], node.kernel, node.kernel)
            case "linear":
                weight = (node.shape[0], self[node.inputs[0]].shape[0])
            case "batch_norm":
                return [ParameterSpec(f"{node.name}.{part}", node.shape[:1]) for part in ("weight", "bias")]
            case _:
                return []
        specs = [ParameterSpec(f"{node.name}.weight", weight)]
        if node.bias:
            specs.append(ParameterSpec(f"{node.name}.bias", node.shape[:1]))
        return specs

    def statistics_of(self, node: Node) -> list[ParameterSpec]:
        """The running mean and variance of a batch normalisation."""
        if node.op != "batch_norm":
            return []
        return [ParameterSpec(f"{node.name}.{part}", node.shape[:1]) for part in ("running_mean", "running_var")]

    def parameters(self) -> list[ParameterSpec]:
        return [spec for node in self.nodes for spec in self.parameters_of(node)]

    def statistics(self) -> list[ParameterSpec]:
        return [spec for node in self.nodes for spec in self.statistics_of(node)]

    def parameter_count(self) -> int:
        return sum(spec.size for spec in self.parameters())

    def macs_of(self, node: Node) -> int:
        """Multiply-accumulates of one image's forward pass; only convolutions and linear layers count, as is usual."""
        if node.op == "conv":
            return self.parameters_of(node)[0].size * math.prod(node.shape[1:])
        if node.op == "linear":
            return self.parameters_of(node)[0].size
        return 0

    def macs(self) -> int:
        return sum(self.macs_of(node) for node in self.nodes)

    def consumers(self) -> dict[str, int]:
        """How many nodes read each node's output."""
        counts = {node.name: 0 for node in self.nodes}
        for node in self.nodes:
            for name in node.inputs:
                counts[name] += 1
        return counts
