"""A frozen network that turns pictures into features, as its file describes it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparcl.backbone.description import Layers, build, check_size
from sparcl.errors import SparclError
from sparcl.graph import Graph, ParameterSpec
from sparcl.network.parameters import Parameters
from sparcl.tensor_files import UNREADABLE
from sparcl.weights.file import UnusableError, shown

MAX_CLASSES = 1 << 16


@dataclass(frozen=True)
class Backbone:
    """`digest` is the SHA-256 of the file: whoever keeps features keeps it too, for they belong to these weights.

    Pictures are squares with sides of `size` pixels, or of another size that the network can take; a pixel is
    (value / 255 - mean) / std. There are `features` numbers for each.
    """

    name: str
    digest: str
    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    features: int
    path: Path
    layers: Layers = field(repr=False, compare=False)
    tensors: Mapping[str, NDArray[Any]] = field(repr=False, compare=False)  # of the open file, each checked when read

    def graph(self, size: int | None = None, classes: int = 1) -> Graph:
        """The network with a classifier of its own behind the features, for pictures of this size."""
        if not 1 <= classes <= MAX_CLASSES:
            raise SparclError(f"A backbone's classifier has 1 to {MAX_CLASSES:,} classes, not {classes}.")
        try:
            graph = build(self.layers, self.size if size is None else check_size(size), classes)
            if size is not None:
                self._check_other_size(graph, size)
        except UnusableError as error:
            raise self._unusable(error) from error
        return graph

    def parameters(self, size: int | None = None, classes: int = 1) -> Parameters:
        """The numbers of `graph(size, classes)`, in memory of their own. Those of the classifier are zero."""
        graph = self.graph(size, classes)
        parameters = Parameters(graph)
        try:
            for spec in stored_specs(graph):
                store = parameters.values if spec.name in parameters.values.specs else parameters.statistics
                store[spec.name][...] = checked_numbers(spec, self.tensors)
        except UnusableError as error:
            raise self._unusable(error) from error
        return parameters

    def _check_other_size(self, graph: Graph, size: int) -> None:
        """A layer that sees the whole picture at once has weights for one size only."""
        own = {spec.name: spec.shape for spec in stored_specs(build(self.layers, self.size, 1))}
        if any(own[spec.name] != spec.shape for spec in stored_specs(graph)):
            raise UnusableError(f"has weights for pictures of {self.size} pixels only, not of {size}")

    def _unusable(self, error: UnusableError) -> SparclError:
        return SparclError(f"The backbone {self.name!r} ({self.path}) {error}.")


def stored_specs(graph: Graph) -> list[ParameterSpec]:
    """What a file holds of a graph: all but its classifier, and dropout's count of passes."""
    nodes = [node for node in graph if node is not graph.classifier]
    return [
        *(spec for node in nodes for spec in graph.parameters_of(node)),
        *(spec for node in nodes if graph.parameters_of(node) for spec in graph.statistics_of(node)),
    ]


def checked_numbers(spec: ParameterSpec, tensors: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
    """Numbers with which a network can compute; raises UnusableError."""
    try:
        found = tensors[spec.name]
    except UNREADABLE as error:
        if isinstance(error, UnusableError):
            raise
        raise UnusableError(f"is damaged in {shown(spec.name)}") from error
    if found.dtype.kind != "f" or found.shape != spec.shape:
        raise UnusableError(f"has in {shown(spec.name)} {found.dtype} numbers of the shape {found.shape}, not a weight")
    with np.errstate(over="ignore"):
        numbers: NDArray[np.float32] = found.astype(np.float32)
    if not np.isfinite(numbers).all():
        raise UnusableError(f"has in {shown(spec.name)} what is not a number")
    if spec.name.endswith(".running_var") and (numbers < 0).any():
        raise UnusableError(f"has a negative variance in {shown(spec.name)}")
    return numbers
