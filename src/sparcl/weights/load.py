"""`sparcl.load_weights`: the tensors of a file of weights, whoever wrote it.

weights = sparcl.load_weights("resnet18.pth")    # a mapping from names to arrays
weights.copy_to(graph, parameters)               # into a network of ours, whose names may be others
"""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparcl.errors import SparclError
from sparcl.graph import Graph, ParameterSpec, Shape
from sparcl.network.parameters import Parameters, check_positions
from sparcl.weights.file import UnusableError, WeightFile, shown
from sparcl.weights.names import Matches, match
from sparcl.weights.own_file import EXPORTED, OwnTensors, newest_in
from sparcl.weights.pt_file import looks_like_pt, read_pt
from sparcl.weights.safetensors_file import looks_like_safetensors, read_safetensors


class Weights(Mapping[str, NDArray[Any]]):
    """The tensors of a file by name, each read when it is asked for. bfloat16 becomes float32, which NumPy has.

    A sparse weight in one of our own files is the array of its active values, and `positions` says where they belong.
    """

    def __init__(
        self,
        file: WeightFile,
        shapes: Mapping[str, Shape],
        read: Callable[[str], NDArray[Any]],
        own: OwnTensors | None = None,
        ordered: bool = False,
    ) -> None:
        self.path, self._file = file.path, file
        self._shapes, self._read, self._own, self._ordered = shapes, read, own, ordered

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._shapes:
            raise KeyError(name)
        try:
            return self._read(name)
        except UnusableError as error:
            raise self._unusable(error) from error

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)

    @property
    def shapes(self) -> Mapping[str, Shape]:
        """By name, without reading the numbers; that of a sparse weight is how many values it has."""
        return self._shapes

    @property
    def digest(self) -> str:
        """SHA-256 of the file, in hexadecimal digits."""
        try:
            return self._file.digest
        except UnusableError as error:
            raise self._unusable(error) from error

    def positions(self, name: str) -> NDArray[Any] | None:
        """Of a sparse weight: the places of its values in the weight as one row of numbers. None: all are there."""
        if self._own is None or name not in self._own.sparse:
            return None
        try:
            return self._own.positions(name)
        except UnusableError as error:
            raise self._unusable(error) from error

    def copy_to(self, graph: Graph, parameters: Parameters, with_classifier: bool = True) -> Matches:
        """Copy into the parameters of a network; of sparse weights, what belongs to their active positions.

        Raises SparclError if anything but the classifier is missing or has another shape, and then changes nothing.
        """
        sparse = self._own.sparse if self._own is not None else set()
        shapes = {name: None if name in sparse else shape for name, shape in self._shapes.items()}
        try:
            matches = match(graph, shapes, self._ordered, with_classifier)
            specs = {spec.name: spec for spec in (*graph.parameters(), *graph.statistics())}
            numbers = {name: self._checked(specs[name], source) for name, source in matches.found.items()}
        except UnusableError as error:
            raise self._unusable(error) from error
        for name, array in numbers.items():
            store = parameters.values if name in parameters.values.specs else parameters.statistics
            store[name][...] = array.ravel()[store.index[name]] if name in store.index else array
        return matches

    def _checked(self, spec: ParameterSpec, source: str) -> NDArray[Any]:
        """Numbers with which a network can compute, in the shape that it wants."""
        found, positions = self[source], self.positions(source)
        with np.errstate(over="ignore"):
            numbers = found.astype(np.float32) if found.dtype.kind == "f" else None
        if numbers is None or not np.isfinite(numbers).all():
            raise UnusableError(f"has in {shown(source)} what is not a number")
        if spec.name.endswith(".running_var") and (numbers < 0).any():
            raise UnusableError(f"has a negative variance in {shown(source)}")
        if positions is None:
            return numbers
        try:
            if positions.dtype.kind != "i" or positions.ndim != 1 or positions.shape != numbers.shape:
                raise ValueError("they are not as many as the values")
            check_positions(spec, positions)
        except ValueError as error:
            raise UnusableError(f"does not fit: {error}") from error
        full = np.zeros(spec.size, np.float32)
        full[positions] = numbers
        return full.reshape(spec.shape)

    def _unusable(self, error: UnusableError) -> SparclError:
        return SparclError(f"{self.path} {error}.")


def load_weights(path: str | os.PathLike[str]) -> Weights:
    """Read a file of weights: a state dict of PyTorch (.pt, .pth; never unpickled), safetensors, or one of our own
    checkpoints and states, also by the directory of a run or a learner. SparclError says in one line what is wrong."""
    file = WeightFile(newest_in(Path(path)))
    try:
        if looks_like_pt(file):
            placed = read_pt(file)
            return Weights(file, _shapes(placed), lambda name: placed[name].read(file), ordered=True)
        if not looks_like_safetensors(file):
            raise UnusableError(
                "is neither a safetensors file nor a state dict of PyTorch; "
                "one is written by torch.save(model.state_dict(), file)"
            )
        tensors, texts = read_safetensors(file)
        if "sparcl" in texts:
            raise UnusableError(EXPORTED)
        if "state" in texts and any(name.startswith("parameters.") for name in tensors):
            own = OwnTensors(file, tensors, texts)
            return Weights(file, {name: tensors[key].shape for name, key in own.names.items()}, own.read, own)
        return Weights(file, _shapes(tensors), lambda name: tensors[name].read(file))
    except UnusableError as error:
        raise SparclError(f"{file.path} {error}.") from error


def _shapes(tensors: Mapping[str, Any]) -> dict[str, Shape]:
    return {name: tensor.shape for name, tensor in tensors.items()}
