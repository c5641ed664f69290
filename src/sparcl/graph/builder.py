"""Building a graph node by node: each call adds one and returns its name, to be fed to the next call.

build = GraphBuilder((3, 32, 32))
x = build("stem.conv", Conv(64), build.input)
x = build("stem.relu", Relu(), build("stem.bn", BatchNorm(), x))
graph = build.finish(build("classifier", Linear(10), build("pool", GlobalAveragePool(), x)))
"""

from sparcl.graph.graph import Graph, Node
from sparcl.operations import Input, Operation, Shape


class GraphBuilder:
    def __init__(self, input_shape: Shape) -> None:
        self.input = "input"
        self._nodes: dict[str, Node] = {}
        self._append(Node(self.input, Input(), (), input_shape))

    def __call__(self, name: str, operation: Operation, *sources: str) -> str:
        try:
            shape = operation.output_shape(*(self._nodes[source].shape for source in sources))
        except ValueError as problem:
            raise ValueError(f"{name!r} does not fit what it reads: {problem}") from None
        return self._append(Node(name, operation, sources, shape))

    def _append(self, node: Node) -> str:
        if node.name in self._nodes:
            raise ValueError(f"there are two nodes called {node.name!r}")
        if any(size < 1 for size in node.shape):
            raise ValueError(
                f"node {node.name!r} would have the impossible shape {node.shape}: the images are too small"
            )
        self._nodes[node.name] = node
        return node.name

    def shape(self, name: str) -> Shape:
        return self._nodes[name].shape

    def count(self, kind: type[Operation]) -> int:
        return sum(isinstance(node.op, kind) for node in self._nodes.values())

    def finish(self, output: str) -> Graph:
        if next(reversed(self._nodes)) != output:
            raise ValueError(f"the output {output!r} must be the last node that was added")
        return Graph(tuple(self._nodes.values()))
