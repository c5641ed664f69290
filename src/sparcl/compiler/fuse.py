"""Fusing: everything between two convolutions becomes one operation.

    conv ─► batch_norm ─┐
                        ├─► add ─► relu      becomes      convolve, convolve, combine
    conv ─► batch_norm ─┘

`combine` is relu(norm(a) + norm(b)), of which the second operand, the norms and the ReLU may be missing. The bias of a
convolution is the norm of whoever reads the convolution.
"""

from dataclasses import dataclass
from typing import Literal

from sparcl.graph import Graph, Node


@dataclass(frozen=True)
class Operand:
    map: str
    norm: str = ""  # a batch normalisation, or a convolution whose bias is added


@dataclass(frozen=True)
class Fused:
    """An operation of the engine's forward pass; `out` is the map it makes."""

    op: Literal["convolve", "combine", "max_pool", "average_pool", "linear"]
    out: str
    operands: tuple[Operand, ...]
    relu: bool = False
    node: Node | None = None  # of a convolution, pooling or linear layer


def unsupported(graph: Graph) -> str | None:
    """Why the engine cannot run a graph; None if it can."""
    for node in graph:
        if node.op == "conv":
            if node.kernel not in (1, 3) or node.stride not in (1, 2) or node.padding != node.kernel // 2:
                return (
                    f"{node.name} is a {node.kernel}x{node.kernel} convolution of stride {node.stride}; "
                    "the engine has 1x1 and 3x3, stride 1 and 2, padded by half"
                )
            size = graph.parameters_of(node)[0].size
            if size >= 2**31:
                return f"{node.name} has {size} weights; the engine counts to 2^31"
        if any(size >= 32767 for size in node.shape[1:]):
            return f"{node.name} makes maps of {node.shape}; the engine's are smaller than 32767 pixels a side"
    if graph.nodes[-1].op != "linear":
        return f"the last layer is {graph.nodes[-1].op}; the engine expects a linear one"
    return None


class _Fusing:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.readers = graph.consumers()
        self.done: dict[str, str] = {}  # node -> the map that holds its output
        self.fused: list[Fused] = []
        self.absorbed = self._absorbed()

    def _absorbed(self) -> set[str]:
        """Nodes that their only reader takes in."""
        inside: set[str] = set()
        for node in self.graph:
            takes = {"relu": ("add", "batch_norm"), "add": ("batch_norm",)}.get(node.op, ())
            for name in node.inputs:
                if self.graph[name].op in takes and self.readers[name] == 1:
                    inside.add(name)
        return inside

    def operand(self, name: str) -> Operand:
        node = self.graph[name]
        if name in self.absorbed and node.op == "batch_norm":
            return Operand(self.plain(node.inputs[0]), node.name)
        if node.op == "conv" and node.bias:
            return Operand(name, f"{name}:bias")
        return Operand(self.done[name])

    def plain(self, name: str) -> str:
        """The finished output of a node, its bias added."""
        node = self.graph[name]
        if node.op == "conv" and node.bias and self.done[name] == name:
            self.add(Fused("combine", f"{name}:biased", (self.operand(name),)), name)
        return self.done[name]

    def padded(self, name: str) -> str:
        """The output of a node as a convolution can read it: with zeros around, which a convolution does not write."""
        found = self.plain(name)
        if self.graph[name].op == "conv" and found == name:
            self.add(Fused("combine", f"{name}:copy", (Operand(name),)), name)
        return self.done[name]

    def add(self, fused: Fused, name: str) -> None:
        self.fused.append(fused)
        self.done[name] = fused.out

    def run(self) -> list[Fused]:
        for node in self.graph:
            if node.name in self.absorbed:
                continue
            match node.op:
                case "input":
                    self.done[node.name] = node.name
                case "conv":
                    self.add(
                        Fused("convolve", node.name, (Operand(self.padded(node.inputs[0])),), node=node), node.name
                    )
                case "batch_norm":
                    operand = Operand(self.plain(node.inputs[0]), node.name)
                    self.add(Fused("combine", node.name, (operand,)), node.name)
                case "add":
                    self.add(Fused("combine", node.name, self._sum(node)), node.name)
                case "relu":
                    source = self.graph[node.inputs[0]]
                    takes_sum = source.op == "add" and source.name in self.absorbed
                    operands = self._sum(source) if takes_sum else (self.operand(source.name),)
                    self.add(Fused("combine", node.name, operands, relu=True), node.name)
                case "max_pool":
                    self.add(Fused("max_pool", node.name, (Operand(self.plain(node.inputs[0])),), node=node), node.name)
                case "global_average_pool":
                    self.add(
                        Fused("average_pool", node.name, (Operand(self.plain(node.inputs[0])),), node=node), node.name
                    )
                case "linear":
                    self.add(Fused("linear", node.name, (Operand(self.plain(node.inputs[0])),), node=node), node.name)
        return self.fused

    def _sum(self, node: Node) -> tuple[Operand, ...]:
        return tuple(self.operand(name) for name in node.inputs)


def fuse(graph: Graph) -> list[Fused]:
    return _shortcuts_first(_Fusing(graph).run())


def _shortcuts_first(fused: list[Fused]) -> list[Fused]:
    """A 1x1 convolution runs as soon as its input is there.

    Its data gradient then comes last and is added to what is there. With stride 2 it touches a quarter of the pixels,
    and coming first it would have to write zeros into the others.
    """
    ordered: list[Fused] = []
    for op in fused:
        if op.node is None or op.op != "convolve" or op.node.kernel != 1:
            ordered.append(op)
            continue
        made = [place for place, earlier in enumerate(ordered) if earlier.out == op.operands[0].map]
        ordered.insert(made[0] + 1 if made else 0, op)
    return ordered


def fold(fused: list[Fused]) -> list[Fused]:
    """For inference: a convolution takes in the `combine` that alone reads it.

    The running statistics are constants there, so a batch normalisation is a scale of the weights and a bias; the other
    operand is added and ReLU applied while the output is still in registers. Of two convolutions that are added, the
    later one takes in the sum, and the earlier one only its own norm.
    """
    readers: dict[str, int] = {}
    for op in fused:
        for operand in op.operands:
            readers[operand.map] = readers.get(operand.map, 0) + 1
    made = {op.out: place for place, op in enumerate(fused) if op.op == "convolve"}
    replaced: dict[int, Fused] = {}
    gone: set[int] = set()
    for place, op in enumerate(fused):
        if op.op != "combine":
            continue
        private = [o for o in op.operands if o.map in made and o.norm and readers[o.map] == 1]
        others = [o for o in op.operands if o not in private]
        if not private or any(o.norm for o in others):
            continue
        private.sort(key=lambda o: made[o.map])
        *earlier, last = private
        for operand in earlier:
            replaced[made[operand.map]] = _with_epilogue(fused[made[operand.map]], operand, operand.map, (), False)
            others.append(Operand(operand.map))
        # The sum is computed where the combine stood: there, everything it adds is ready.
        replaced[place] = _with_epilogue(fused[made[last.map]], last, op.out, tuple(others), op.relu)
        gone.add(made[last.map])
    return [replaced.get(place, op) for place, op in enumerate(fused) if place not in gone]


def _with_epilogue(conv: Fused, operand: Operand, out: str, others: tuple[Operand, ...], relu: bool) -> Fused:
    return Fused("convolve", out, (Operand(conv.operands[0].map, operand.norm), *others), relu, conv.node)
