"""Fusing: everything between two convolutions becomes one step.

    conv ─► batch_norm ─┐
                        ├─► add ─► relu      becomes      convolve, convolve, combine
    conv ─► batch_norm ─┘

`combine` is activation(norm(a) + norm(b)), of which the second operand, the norms and the activation may be missing.
The bias of a convolution is the norm of whoever reads the convolution. Every other operation is a step of its own.
"""

from dataclasses import dataclass

from sparcl.graph import Graph, Node
from sparcl.operations import Conv

MAX_SIDE = 32766  # pixels of a map; the engine counts them in 16 bits


@dataclass(frozen=True)
class Operand:
    map: str
    norm: str = ""  # a batch normalisation, or a convolution whose bias is added


@dataclass(frozen=True)
class Fused:
    """A step of the engine's forward pass; `out` is the map it makes."""

    op: str  # convolve, combine, or the engine's name of an operation
    out: str
    operands: tuple[Operand, ...]
    activation: str = ""
    node: Node | None = None  # of everything but combine
    attributes: tuple[int, ...] = ()


def unsupported(graph: Graph) -> str | None:
    """Why the engine cannot run a graph; None if it can."""
    for node in graph:
        reason = node.op.unsupported(graph.shapes_into(node), node.shape)
        if reason is not None:
            return f"{node.name} {reason}"
        if any(size > MAX_SIDE for size in node.shape[1:]):
            return f"{node.name} makes maps of {node.shape}; the engine's have at most {MAX_SIDE} pixels a side"
    last = graph.nodes[-1]
    if len(last.shape) != 1:
        return f"the last layer, {last.name}, makes maps; the engine expects one number for each class"
    return None


def bias_norm(node: Node) -> str:
    """The name under which a convolution's bias is a norm; empty if it has none."""
    return f"{node.name}:bias" if isinstance(node.op, Conv) and node.op.bias else ""


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
            takes = {"activation": ("sum", "norm"), "sum": ("norm",)}.get(node.op.role, ())
            for name in node.inputs:
                if self.graph[name].op.role in takes and self.readers[name] == 1:
                    inside.add(name)
        return inside

    def operand(self, name: str) -> Operand:
        node = self.graph[name]
        if name in self.absorbed and node.op.role == "norm":
            return Operand(self.plain(node.inputs[0]), node.name)
        if bias_norm(node):
            return Operand(name, bias_norm(node))
        return Operand(self.done[name])

    def plain(self, name: str) -> str:
        """The finished output of a node, its bias added."""
        if bias_norm(self.graph[name]) and self.done[name] == name:
            self.add(Fused("combine", f"{name}:biased", (self.operand(name),)), name)
        return self.done[name]

    def padded(self, name: str) -> str:
        """The output of a node as a convolution can read it: with zeros around, which a convolution does not write."""
        found = self.plain(name)
        if self.graph[name].op.role == "convolution" and found == name:
            self.add(Fused("combine", f"{name}:copy", (Operand(name),)), name)
        return self.done[name]

    def add(self, fused: Fused, name: str) -> None:
        self.fused.append(fused)
        self.done[name] = fused.out

    def run(self) -> list[Fused]:
        for node in self.graph:
            if node.name not in self.absorbed:
                self._emit(node)
        return self.fused

    def _emit(self, node: Node) -> None:
        match node.op.role:
            case "input":
                self.done[node.name] = node.name
            case "convolution":
                source = Operand(self.padded(node.inputs[0]))
                self.add(Fused("convolve", node.name, (source,), node=node), node.name)
            case "norm":
                operand = Operand(self.plain(node.inputs[0]), node.name)
                self.add(Fused("combine", node.name, (operand,)), node.name)
            case "sum":
                self.add(Fused("combine", node.name, self._sum(node)), node.name)
            case "activation":
                source_node = self.graph[node.inputs[0]]
                takes_sum = source_node.op.role == "sum" and source_node.name in self.absorbed
                operands = self._sum(source_node) if takes_sum else (self.operand(source_node.name),)
                self.add(Fused("combine", node.name, operands, node.op.name), node.name)
            case "kernel":
                sources = [Operand(self.plain(name)) for name in node.inputs]
                parts = node.op.parts(self.graph.shapes_into(node))
                for source, attributes in zip(sources, parts, strict=True):
                    name = node.op.engine_name()
                    self.fused.append(
                        Fused(name, node.name, (source,), node=node, attributes=tuple(attributes.values()))
                    )
                self.done[node.name] = node.name

    def _sum(self, node: Node) -> tuple[Operand, ...]:
        return tuple(self.operand(name) for name in node.inputs)


def fuse(graph: Graph) -> list[Fused]:
    return _shortcuts_first(_Fusing(graph).run())


def _shortcuts_first(fused: list[Fused]) -> list[Fused]:
    """A strided 1x1 convolution runs as soon as its input is there.

    Its data gradient then comes last and is added to what is there. With stride 2 it touches a quarter of the pixels,
    and coming first it would have to write zeros into the others.
    """
    ordered: list[Fused] = []
    for op in fused:
        shortcut = op.node is not None and isinstance(op.node.op, Conv) and op.node.op.is_projection
        made = [place for place, earlier in enumerate(ordered) if earlier.out == op.operands[0].map]
        ordered.insert((made[-1] + 1 if made else 0) if shortcut else len(ordered), op)
    return ordered
