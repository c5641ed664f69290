"""Building a graph layer by layer: each call adds a node and returns its name, to be fed to the next call.

build = GraphBuilder((3, 32, 32))
x = build.conv("stem.conv", build.input, channels=64)
x = build.relu("stem.relu", build.batch_norm("stem.bn", x))
graph = build.finish(build.linear("classifier", build.global_average_pool("pool", x), 10))
"""

from sparcl.graph.graph import Graph, Node, Op, Shape


class GraphBuilder:
    def __init__(self, input_shape: Shape) -> None:
        self.input = "input"
        self._nodes: dict[str, Node] = {}
        self._append(Node(self.input, "input", (), input_shape))

    def _append(self, node: Node) -> str:
        if node.name in self._nodes:
            raise ValueError(f"there are two nodes called {node.name!r}")
        if any(size < 1 for size in node.shape):
            raise ValueError(
                f"node {node.name!r} would have the impossible shape {node.shape}: the images are too small"
            )
        self._nodes[node.name] = node
        return node.name

    def _same_shape(self, name: str, op: Op, *sources: str) -> str:
        return self._append(Node(name, op, sources, self._nodes[sources[0]].shape))

    def conv(self, name: str, source: str, channels: int, kernel: int = 3, stride: int = 1, bias: bool = False) -> str:
        """A convolution padded so that stride 1 keeps the image size."""
        padding = kernel // 2
        _, height, width = self._nodes[source].shape
        shape = (channels, (height + 2 * padding - kernel) // stride + 1, (width + 2 * padding - kernel) // stride + 1)
        return self._append(Node(name, "conv", (source,), shape, kernel, stride, padding, bias))

    def batch_norm(self, name: str, source: str) -> str:
        return self._same_shape(name, "batch_norm", source)

    def relu(self, name: str, source: str) -> str:
        return self._same_shape(name, "relu", source)

    def add(self, name: str, first: str, second: str) -> str:
        if self._nodes[first].shape != self._nodes[second].shape:
            raise ValueError(f"{name!r} cannot add {first!r} and {second!r}: their shapes differ")
        return self._same_shape(name, "add", first, second)

    def max_pool(self, name: str, source: str, kernel: int = 2) -> str:
        channels, height, width = self._nodes[source].shape
        shape = (channels, height // kernel, width // kernel)
        return self._append(Node(name, "max_pool", (source,), shape, kernel, stride=kernel))

    def global_average_pool(self, name: str, source: str) -> str:
        return self._append(Node(name, "global_average_pool", (source,), self._nodes[source].shape[:1]))

    def linear(self, name: str, source: str, features: int) -> str:
        return self._append(Node(name, "linear", (source,), (features,), bias=True))

    def finish(self, output: str) -> Graph:
        if next(reversed(self._nodes)) != output:
            raise ValueError(f"the output {output!r} must be the last node that was added")
        return Graph(tuple(self._nodes.values()))
