"""The numbers of a network as named tensors of a file, and back: checked, because a file may hold anything.

What does not fit raises KeyError or ValueError. It is checked before memory is taken for the network, so that a file
cannot ask for more than it brings.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparcl.graph import Graph
from sparcl.network.parameters import Index, Parameters, check_positions

Tensors = dict[str, NDArray[Any]]


def network_tensors(parameters: Parameters) -> Tensors:
    tensors: Tensors = {f"parameters.{name}": parameters.values[name] for name in parameters.values}
    tensors |= {f"statistics.{name}": parameters.statistics[name] for name in parameters.statistics}
    tensors |= {f"index.{name}": index for name, index in parameters.index.items()}
    return tensors


def load_network(graph: Graph, tensors: Mapping[str, NDArray[Any]]) -> Parameters:
    """The parameters of a network that only predicts: sparse from the start."""
    parameters = Parameters(graph, index=checked_index(graph, tensors))
    _fill(parameters, tensors)
    return parameters


def restore_network(graph: Graph, parameters: Parameters, tensors: Mapping[str, NDArray[Any]]) -> None:
    parameters.set_index(checked_index(graph, tensors))
    _fill(parameters, tensors)


def checked_index(graph: Graph, tensors: Mapping[str, NDArray[Any]]) -> dict[str, Index]:
    """The positions of the sparse weights, once everything is known to fit the graph."""
    index = part(tensors, "index.")
    specs = {spec.name: spec for spec in graph.parameters()}
    for name, positions in index.items():
        if positions.dtype.kind != "i" or positions.ndim != 1 or len(specs[name].shape) != 4:
            raise ValueError(f"{name} cannot be sparse like that")
        check_positions(specs[name], positions)
    for prefix, expected in (("parameters", graph.parameters()), ("statistics", graph.statistics())):
        for spec in expected:
            tensor = tensors[f"{prefix}.{spec.name}"]
            shape = index[spec.name].shape if prefix == "parameters" and spec.name in index else spec.shape
            if tensor.shape != shape:
                raise ValueError(f"an array of shape {tensor.shape} stands where {shape} is expected")
            if tensor.dtype.kind != "f" or not np.isfinite(tensor).all():
                raise ValueError(f"{spec.name} holds what is not a number")
    return {name: np.asarray(positions, np.int32) for name, positions in index.items()}


def part(tensors: Mapping[str, NDArray[Any]], prefix: str) -> Tensors:
    """Those whose name begins so, without it."""
    return {key.removeprefix(prefix): tensors[key] for key in tensors if key.startswith(prefix)}


def _fill(parameters: Parameters, tensors: Mapping[str, NDArray[Any]]) -> None:
    for prefix, store in (("parameters", parameters.values), ("statistics", parameters.statistics)):
        for name in store:
            store[name][...] = tensors[f"{prefix}.{name}"]
