"""Folding batch normalisations: with constant statistics they are a scale and a shift.

conv ─► batch_norm     becomes     conv with scaled weights and a bias
batch_norm elsewhere   becomes     affine: a scale and a shift for each channel
"""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sparcl.graph import Graph, Node
from sparcl.network.parameters import Index, Parameters
from sparcl.network.protocol import BATCH_NORM_EPSILON

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class FoldedNode:
    """A node of the folded graph with its numbers, if it has any."""

    node: Node
    op: str  # that of the node, or affine
    weight: Numbers | None = None  # flattened; of a sparse weight, only the active ones
    index: Index | None = None  # the active positions of a sparse weight; None: all
    row: int = 0  # positions of one output
    bias: Numbers | None = None


def fold(graph: Graph, parameters: Parameters) -> list[FoldedNode]:
    """The graph without batch normalisations, and its numbers in double precision."""
    used = _used(graph)
    readers = Counter(name for node in graph if node.name in used for name in node.inputs)
    into = {  # batch normalisations that their convolution takes in
        node.name: node.inputs[0]
        for node in graph
        if node.name in used
        and node.op == "batch_norm"
        and graph[node.inputs[0]].op == "conv"
        and readers[node.inputs[0]] == 1
    }
    norm_of = {conv: norm for norm, conv in into.items()}
    folded = []
    for node in graph:
        if node.name in into or node.name not in used:
            continue
        renamed = replace(node, inputs=tuple(into.get(name, name) for name in node.inputs))
        folded.append(_with_numbers(renamed, norm_of.get(node.name), parameters))
    return folded


def _used(graph: Graph) -> set[str]:
    """Nodes on which the logits depend."""
    used = {graph.nodes[-1].name, graph.nodes[0].name}
    for node in reversed(graph.nodes):
        if node.name in used:
            used.update(node.inputs)
    return used


def _with_numbers(node: Node, norm: str | None, parameters: Parameters) -> FoldedNode:
    if node.op == "batch_norm":
        scale, shift = _scale_and_shift(node.name, parameters)
        return FoldedNode(node, "affine", scale, bias=shift)
    if node.op not in ("conv", "linear"):
        return FoldedNode(node, node.op)
    name = f"{node.name}.weight"
    index, row = parameters.index.get(name), parameters.values.specs[name].size // node.shape[0]
    weight = parameters.values[name].astype(np.float64).reshape(-1)
    bias = np.zeros(node.shape[0])
    if node.bias:
        bias += parameters.values[f"{node.name}.bias"]
    if norm is not None:
        scale, shift = _scale_and_shift(norm, parameters)
        weight *= scale[index // row] if index is not None else np.repeat(scale, row)
        bias = bias * scale + shift
    return FoldedNode(node, node.op, weight, index, row, bias)


def _scale_and_shift(norm: str, parameters: Parameters) -> tuple[Numbers, Numbers]:
    mean, variance = (parameters.statistics[f"{norm}.running_{part}"].astype(np.float64) for part in ("mean", "var"))
    scale = parameters.values[f"{norm}.weight"] / np.sqrt(variance + BATCH_NORM_EPSILON)
    return scale, parameters.values[f"{norm}.bias"] - mean * scale
