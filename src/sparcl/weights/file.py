"""A file of weights, open to be read at any place, and what a tensor in it is.

Readers of formats find tensors and check that they lie within the file; numbers are read only when they are wanted. So
a file can neither make anybody take more memory than it has bytes, nor change what was checked by being read in pieces.
"""

import hashlib
import math
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparcl.errors import SparclError

MAX_TENSORS = 100_000
MAX_AXES = 8
CHUNK = 1 << 20
BFLOAT16 = "bfloat16"
#: How each type lies in a file. NumPy has no bfloat16: it is read as the upper half of a float32.
TYPES = {
    BFLOAT16: np.dtype("<u2"),
    **{name: np.dtype(name).newbyteorder("<") for name in ("float16", "float32", "float64")},
    **{name: np.dtype(name).newbyteorder("<") for name in ("int8", "int16", "int32", "int64")},
    **{name: np.dtype(name).newbyteorder("<") for name in ("uint8", "uint16", "uint32", "uint64", "bool")},
}


class UnusableError(ValueError):
    """Why a file cannot be used: words that follow its name."""


class WeightFile:
    """Positions and sizes are in bytes. Whoever asks for more than there is gets an UnusableError."""

    def __init__(self, path: Path) -> None:
        self.path, self._descriptor = path, -1
        try:
            # A pipe would be waited for.
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            found = os.fstat(self._descriptor)
        except OSError as error:
            raise SparclError(f"{path} could not be read: {error.strerror or error}.") from error
        except ValueError as error:  # a zero byte in the name
            raise SparclError(f"{str(path)!r} is not the name of a file: {error}.") from error
        if not stat.S_ISREG(found.st_mode):
            raise SparclError(f"{path} is not a file with weights.")
        self.size = found.st_size

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def read(self, start: int, count: int) -> bytes:
        content = bytearray(self._checked(start, count))
        self._fill(start, memoryview(content))
        return bytes(content)

    def read_numbers(self, start: int, count: int, kind: np.dtype[Any]) -> NDArray[Any]:
        self._checked(start, count * kind.itemsize)
        numbers = np.empty(count, kind)
        self._fill(start, numbers.view(np.uint8).data)
        return numbers

    def _fill(self, start: int, left: memoryview) -> None:
        while left:
            try:
                count = os.preadv(self._descriptor, [left[:CHUNK]], start)
            except OSError as error:
                raise UnusableError(f"could not be read: {error.strerror or error}") from error
            if not count:
                raise UnusableError("became shorter while it was read")
            left, start = left[count:], start + count

    def chunks(self, start: int, count: int) -> Iterator[bytes]:
        for first in range(start, start + self._checked(start, count), CHUNK):
            yield self.read(first, min(CHUNK, start + count - first))

    @cached_property
    def digest(self) -> str:
        """SHA-256, by which the file is known again."""
        found = hashlib.sha256()
        for chunk in self.chunks(0, self.size):
            found.update(chunk)
        return found.hexdigest()

    def _checked(self, start: int, count: int) -> int:
        if start < 0 or count < 0 or start + count > self.size:
            raise UnusableError("is shorter than it says")
        return count


@dataclass(frozen=True)
class StoredTensor:
    """Numbers that lie in the file without gaps, each once. `axes`: in the order in which they lie, slowest first."""

    kind: str  # one of TYPES
    shape: tuple[int, ...]
    start: int  # in bytes
    axes: tuple[int, ...]

    @staticmethod
    def contiguous(kind: str, shape: tuple[int, ...], start: int) -> "StoredTensor":
        return StoredTensor(kind, shape, start, tuple(range(len(shape))))

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * TYPES[self.kind].itemsize

    def read(self, file: WeightFile) -> NDArray[Any]:
        numbers = file.read_numbers(self.start, math.prod(self.shape), TYPES[self.kind])
        if self.kind == BFLOAT16:
            numbers = (numbers.astype(np.uint32) << 16).view(np.float32)
        laid_out = numbers.reshape([self.shape[axis] for axis in self.axes])
        return laid_out.transpose(np.argsort(self.axes))


def check_together(tensors: "dict[str, StoredTensor]", file: WeightFile) -> None:
    """That nobody who reads all of them takes far more memory than the file has bytes: tensors may share their bytes,
    but not endlessly."""
    if len(tensors) > MAX_TENSORS:
        raise UnusableError(f"has more than {MAX_TENSORS:,} tensors")
    if sum(tensor.bytes for tensor in tensors.values()) > 2 * file.size:
        raise UnusableError("has tensors that are larger than the file itself")


def checked_shape(shape: Any) -> tuple[int, ...]:
    """Sizes of axes that a file may have."""
    if not isinstance(shape, list | tuple) or len(shape) > MAX_AXES:
        raise UnusableError("has a tensor without a possible shape")
    if not all(type(size) is int and 0 <= size < 1 << 40 for size in shape):
        raise UnusableError("has a tensor of an impossible shape")
    return tuple(shape)


def shown(text: str, longest: int = 60) -> str:
    """A name from a file, for a message in one line."""
    cut = text if len(text) <= longest else f"{text[:longest]}..."
    return cut if cut.isprintable() else ascii(cut)[1:-1]
