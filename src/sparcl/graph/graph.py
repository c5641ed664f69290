"""The graph of a network: a list of nodes in the order in which they run.

    input (3,32,32) ──► conv ──► batch_norm ──► relu ──┬──► conv ──► ... ──► add ──► relu ──► ... ──► linear (10,)
                                                       └───────────────────────┘

A node names an operation (sparcl.operations), its inputs and the shape it produces (without the batch); it holds no
numbers. Every backend runs the same graph, and what is counted (parameters, MACs) is counted here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from sparcl.errors import SparclError
from sparcl.operations import Linear, Operation, ParameterSpec, Shape


@dataclass(frozen=True)
class Node:
    name: str
    op: Operation
    inputs: tuple[str, ...]
    shape: Shape


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

    @cached_property
    def _by_name(self) -> dict[str, Node]:
        return {node.name: node for node in self.nodes}

    def __getitem__(self, name: str) -> Node:
        return self._by_name[name]

    @property
    def input_shape(self) -> Shape:
        return self.nodes[0].shape

    @property
    def classes(self) -> int:
        return self.nodes[-1].shape[0]

    @property
    def classifier(self) -> Node:
        """The last layer, which turns features into logits."""
        if not isinstance(self.nodes[-1].op, Linear):
            raise SparclError(
                f"This network ends with {self.nodes[-1].name!r} ({self.nodes[-1].op.name}), but a linear layer is "
                "needed here: it turns features into logits."
            )
        return self.nodes[-1]

    def without_classifier(self) -> "Graph":
        """The part that makes the features."""
        features = self.classifier.inputs[0]
        return Graph(self.nodes[: self.nodes.index(self[features]) + 1])

    def shapes_into(self, node: Node) -> list[Shape]:
        """The shapes of a node's inputs."""
        return [self[name].shape for name in node.inputs]

    def parameters_of(self, node: Node) -> list[ParameterSpec]:
        """The trained parameters a node owns."""
        owned = node.op.parameters(self.shapes_into(node), node.shape)
        return [ParameterSpec(f"{node.name}.{part}", shape) for part, shape in owned.items()]

    def statistics_of(self, node: Node) -> list[ParameterSpec]:
        """The running statistics a node owns."""
        owned = node.op.statistics(self.shapes_into(node), node.shape)
        return [ParameterSpec(f"{node.name}.{part}", shape) for part, shape in owned.items()]

    def parameters(self) -> list[ParameterSpec]:
        return [spec for node in self.nodes for spec in self.parameters_of(node)]

    def statistics(self) -> list[ParameterSpec]:
        return [spec for node in self.nodes for spec in self.statistics_of(node)]

    def parameter_count(self) -> int:
        return sum(spec.size for spec in self.parameters())

    def macs_of(self, node: Node) -> int:
        """Multiply-accumulates of one image's forward pass through a node."""
        return node.op.macs(self.shapes_into(node), node.shape)

    def macs(self) -> int:
        return sum(self.macs_of(node) for node in self.nodes)

    def consumers(self) -> dict[str, int]:
        """How many nodes read each node's output."""
        counts = {node.name: 0 for node in self.nodes}
        for node in self.nodes:
            for name in node.inputs:
                counts[name] += 1
        return counts
