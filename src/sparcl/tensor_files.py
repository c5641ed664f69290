"""Sealed safetensors files: arrays, and a state beside them as JSON in the header.

Every array has a checksum of its numbers and of what they are; the checksums are in the state, which is sealed. So each
array can be checked alone, when it is read, and nothing in a file can change unnoticed. Files are written here array by
array: with no second copy in memory, and no temporary file but the one that `files` makes and removes.
"""

import contextlib
import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import numpy as np
import safetensors
from numpy.typing import NDArray

from sparcl.seals import SEAL, sealed, unsealed

Tensors = dict[str, NDArray[Any]]
State = dict[str, Any]
UNREADABLE = (
    *(safetensors.SafetensorError, OSError, ValueError, KeyError, TypeError, AttributeError, IndexError),
    *(OverflowError, RecursionError),
)
ALIGNMENT = 8  # of the arrays in the file, so that they can be used where they lie
TYPES = {
    **{np.dtype(f"float{bits}"): f"F{bits}" for bits in (16, 32, 64)},
    **{np.dtype(f"int{bits}"): f"I{bits}" for bits in (8, 16, 32, 64)},
    **{np.dtype(f"uint{bits}"): f"U{bits}" for bits in (8, 16, 32, 64)},
    np.dtype(bool): "BOOL",
}


def write(file: BinaryIO, tensors: Mapping[str, NDArray[Any]], state: State) -> None:
    """Sealed."""
    checksums = {name: checksum(tensor) for name, tensor in tensors.items()}
    whole = sealed({**state, "checksums": checksums})
    write_unsealed(file, tensors, {"state": json.dumps(whole)})


def write_unsealed(file: BinaryIO, tensors: Mapping[str, NDArray[Any]], metadata: dict[str, str]) -> None:
    """As safetensors: the length of the header, the header, and the arrays without gaps, those with the widest numbers
    first, otherwise in the order in which they are given."""
    ordered = sorted(tensors, key=lambda name: -tensors[name].itemsize)
    header: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name in ordered:
        tensor, start = tensors[name], end
        end += tensor.nbytes
        header[name] = {"dtype": TYPES[tensor.dtype], "shape": tensor.shape, "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    file.write(len(text).to_bytes(8, "little") + text)
    for name in ordered:
        file.write(_bytes(tensors[name]))


class SealedTensors(Mapping[str, NDArray[Any]]):
    """The tensors of a file, each checked when it is asked for; and the state beside them.

    Raises what UNREADABLE lists, here and when tensors are asked for.
    """

    def __init__(self, file: Any, allow_unsealed: bool = False) -> None:
        self._file, self._names = file, tuple(file.keys())
        whole = json.loads(file.metadata()["state"])
        if not isinstance(whole, dict):
            raise ValueError("the state is not a JSON object")
        self._checksums: dict[str, int] | None = None
        # One flipped bit cannot take away both: a file that has either is one with a seal.
        if not allow_unsealed or SEAL in whole or "checksums" in whole:
            if SEAL not in whole:
                raise ValueError("its seal is missing")
            self._checksums = whole["checksums"]
            if self._checksums.keys() != set(self._names):
                raise ValueError("arrays are missing, or there are too many")
        self.state: State = {name: value for name, value in unsealed(whole).items() if name != "checksums"}

    def __getitem__(self, name: str) -> NDArray[Any]:
        tensor: NDArray[Any] = self._file.get_tensor(name)
        if self._checksums is not None and checksum(tensor) != self._checksums[name]:
            raise ValueError(f"{name} has changed since it was written")
        return tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@contextlib.contextmanager
def opened(file: BinaryIO, allow_unsealed: bool = False) -> Iterator[SealedTensors]:
    """From a file that is open: its name may lead somewhere else by now."""
    with safetensors.safe_open(f"/proc/self/fd/{file.fileno()}", framework="numpy") as tensors:
        yield SealedTensors(tensors, allow_unsealed)


def read(file: BinaryIO, prefix: str = "", allow_unsealed: bool = False) -> tuple[Tensors, State]:
    """Everything; with a prefix only the tensors whose names begin with it."""
    with opened(file, allow_unsealed) as found:
        return {name: found[name] for name in found if name.startswith(prefix)}, found.state


def checksum(tensor: NDArray[Any]) -> int:
    """Of the numbers, and of what they are."""
    return zlib.crc32(_bytes(tensor), zlib.crc32(f"{tensor.dtype}{tensor.shape}".encode()))


def _bytes(tensor: NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(tensor).reshape(-1).view(np.uint8).data
