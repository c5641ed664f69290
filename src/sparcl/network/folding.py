"""What a network computes when it only predicts: constant batch normalisations are folded away.

conv ─► batch_norm     becomes     conv with scaled weights and a bias
batch_norm elsewhere   becomes     affine: a scale and a shift for each channel
dropout                is gone

Learners, runs, model files and benchmarks all predict with what comes out of here.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sparcl import _engine
from sparcl.graph import Graph, Node
from sparcl.network.parameters import FlatStore, Index, Parameters
from sparcl.operations import BatchNorm, Conv, Input, Linear, Operation, Shape


@dataclass(frozen=True)
class FoldedNode:
    """A node that predicts, with its numbers, if it has any, in double precision."""

    name: str
    op: Operation
    inputs: tuple[str, ...]
    shape: tuple[int, ...]
    values: NDArray[np.float64] | None = None  # of a weight, flattened; of a sparse one, only the active ones
    index: Index | None = None  # the active positions of a sparse weight; None: all
    row: int = 0  # positions of one output
    shift: NDArray[np.float64] | None = None

    def weight(self) -> NDArray[np.float64]:
        """Every position, zero where nothing is stored."""
        assert self.values is not None
        if self.index is None:
            return self.values
        full = np.zeros(self.shape[0] * self.row)
        full[self.index] = self.values
        return full

    def bias(self) -> NDArray[np.float64]:
        assert self.shift is not None
        return self.shift


def fold(graph: Graph, parameters: Parameters) -> list[FoldedNode]:
    """The graph as it predicts: only what the logits depend on, and its numbers."""
    used = _used(graph)
    nodes = [node for node in graph if node.name in used]
    readers = Counter(name for node in nodes for name in node.inputs)
    gone = {node.name: node.inputs[0] for node in nodes if node.op.in_inference() is None}
    into = {  # batch normalisations that their convolution takes in
        node.name: node.inputs[0]
        for node in nodes
        if isinstance(node.op, BatchNorm)
        and isinstance(graph[node.inputs[0]].op, Conv)
        and readers[node.inputs[0]] == 1
    }
    norm_of = {conv: graph[norm] for norm, conv in into.items()}
    handed_on = gone | into

    def source(name: str) -> str:
        while name in handed_on:
            name = handed_on[name]
        return name

    folded = []
    for node in nodes:
        if node.name not in handed_on:
            renamed = replace(node, inputs=tuple(source(name) for name in node.inputs))
            folded.append(_with_numbers(renamed, norm_of.get(node.name), parameters))
    return folded


def _used(graph: Graph) -> set[str]:
    """Nodes on which the logits depend."""
    used = {graph.nodes[-1].name, graph.nodes[0].name}
    for node in reversed(graph.nodes):
        if node.name in used:
            used.update(node.inputs)
    return used


def _with_numbers(node: Node, norm: Node | None, parameters: Parameters) -> FoldedNode:
    if isinstance(node.op, Input):
        return FoldedNode(node.name, node.op, (), node.shape)
    op = node.op.in_inference()
    assert op is not None
    if isinstance(node.op, BatchNorm):
        scale, shift = _scale_and_shift(node, parameters)
        return FoldedNode(node.name, op, node.inputs, node.shape, scale, None, 1, shift)
    name = f"{node.name}.weight"
    if name not in parameters.values.specs:
        return FoldedNode(node.name, op, node.inputs, node.shape)
    outputs = node.shape[0]
    index, row = parameters.index.get(name), parameters.values.specs[name].size // outputs
    weight = parameters.values[name].astype(np.float64).reshape(-1)
    shift = np.zeros(outputs)
    if f"{node.name}.bias" in parameters.values.specs:
        shift += parameters.values[f"{node.name}.bias"]
    if norm is not None:
        scale, constant = _scale_and_shift(norm, parameters)
        weight *= scale[index // row] if index is not None else np.repeat(scale, row)
        shift = shift * scale + constant
    return FoldedNode(node.name, op, node.inputs, node.shape, weight, index, row, shift)


def _scale_and_shift(norm: Node, parameters: Parameters) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    assert isinstance(norm.op, BatchNorm)

    def parts(store: FlatStore) -> dict[str, NDArray[np.floating]]:
        prefix = f"{norm.name}."
        return {name.removeprefix(prefix): store[name] for name in store if name.rpartition(".")[0] == norm.name}

    return norm.op.scale_and_shift(parts(parameters.values), parts(parameters.statistics))


def cut_classifier(folded: list[FoldedNode], classes: int) -> list[FoldedNode]:
    """Only the first outputs of the classifier."""
    last = folded[-1]
    if last.shape[0] == classes:
        return folded
    assert last.values is not None and last.shift is not None
    values, shift = last.values[: classes * last.row], last.shift[:classes]
    return [*folded[:-1], replace(last, op=Linear(classes), shape=(classes,), values=values, shift=shift)]


def stored_weight(node: FoldedNode, shapes: Mapping[str, Shape]) -> NDArray[np.float64]:
    """The values of a weight in the order in which the engine reads them; `shapes`: of all nodes."""
    assert node.values is not None
    return node.op.engine_weight(node.values, [shapes[name] for name in node.inputs])


def engine_nodes(folded: list[FoldedNode]) -> list[_engine.Node]:
    """The folded graph as the engine takes it."""
    number = {node.name: place for place, node in enumerate(folded)}
    shapes = {node.name: node.shape for node in folded}
    return [
        _engine.Node(
            name=node.name,
            op=node.op.engine_name(),
            inputs=[number[name] for name in node.inputs],
            shape=list(node.shape),
            attributes=dict(node.op.attributes()),
            values=None if node.values is None else np.ascontiguousarray(stored_weight(node, shapes), np.float32),
            positions=node.index,
            bias=None if node.shift is None else node.shift.astype(np.float32),
        )
        for node in folded
    ]
