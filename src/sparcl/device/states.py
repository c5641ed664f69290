"""The states of a learner on disk, one file each: whatever happens, the newest one is a whole one.

    states/0000000003.safetensors    after the third learn: network, buffer, held-out pictures, history, everything

A state is written under a temporary name, synced and renamed: the rename is the moment at which something is learned.
The newest number counts. Every array and the JSON beside them carry a checksum, so that a file which a worn-out memory
card has changed is noticed, and what a hostile one says is checked by whoever uses it.
"""

import contextlib
import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
from numpy.typing import NDArray

from sparcl.errors import SparclError
from sparcl.files import TEMPORARY_SUFFIX, sync, write_error
from sparcl.learning.checkpoints import UNREADABLE, Tensors, newest_first, path_of, write
from sparcl.wording import quoted

State = dict[str, Any]


class States:
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def numbers(self) -> list[int]:
        """Those that are there, the newest first."""
        return [int(path.stem) for path in newest_first(self.directory)]

    def newest(self) -> int:
        """0: nothing has been learned yet."""
        return next(iter(self.numbers()), 0)

    def path(self, number: int) -> Path:
        return path_of(self.directory, number)

    def commit(self, number: int, tensors: Tensors, state: State, kept: int) -> None:
        """Write a new state; older ones than the last `kept` and what a power cut left half-written go."""
        write_sealed(self.path(number), tensors, state)
        old = newest_first(self.directory)[kept:]
        for stale in [*old, *self.directory.glob("*" + TEMPORARY_SUFFIX)]:
            with contextlib.suppress(OSError):  # the state is there: what cannot be removed now is removed next time
                stale.unlink(missing_ok=True)

    def remove_newest(self) -> None:
        """The one before becomes the newest."""
        path = self.path(self.newest())
        try:
            path.unlink()
            sync(self.directory)
        except OSError as error:
            raise write_error(path, error) from error

    @contextlib.contextmanager
    def open(self, number: int) -> Iterator["Sealed"]:
        path = self.path(number)
        try:
            with open(path, "rb"):  # safetensors calls everything that it may not open missing
                pass
        except FileNotFoundError:
            raise
        except OSError as error:
            raise SparclError(f"{path} could not be read: {error.strerror or error}.") from error
        try:
            with safetensors.safe_open(path, framework="numpy") as file:
                yield Sealed(file)
        except FileNotFoundError:
            raise
        except (*UNREADABLE, IndexError, OverflowError, AttributeError) as error:
            raise damaged(path, error) from error


class Sealed(Mapping[str, NDArray[Any]]):
    """The tensors of a file, each checked against its checksum when it is asked for; and the state beside them."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.state = opened(json.loads(file.metadata()["state"]))
        self._checksums: dict[str, int] = self.state["checksums"]
        if self._checksums.keys() != set(file.keys()):
            raise ValueError("arrays are missing, or there are too many")

    def __getitem__(self, name: str) -> NDArray[Any]:
        tensor: NDArray[Any] = self._file.get_tensor(name)
        if checksum(tensor) != self._checksums[name]:
            raise ValueError(f"{name} has changed")
        return tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._checksums)

    def __len__(self) -> int:
        return len(self._checksums)


def write_sealed(path: Path, tensors: Tensors, state: State) -> None:
    write(path, tensors, sealed(tensors, state))


def read_sealed(path: Path) -> tuple[Tensors, State]:
    """Everything in a file. Raises what UNREADABLE lists if anything in it has changed."""
    with safetensors.safe_open(path, framework="numpy") as file:
        found = Sealed(file)
        return dict(found), found.state


def sealed(tensors: Tensors, state: State) -> State:
    """The state with the checksums of all tensors, and its own."""
    whole = {**state, "checksums": {name: checksum(tensor) for name, tensor in tensors.items()}}
    return {**whole, "seal": _seal(whole)}


def opened(state: Any) -> State:
    if not isinstance(state, dict) or not isinstance(state.get("checksums"), dict):
        raise ValueError("it holds no state")
    content = {key: value for key, value in state.items() if key != "seal"}
    if state.get("seal") != _seal(content):
        raise ValueError("the state has changed")
    return content


def checksum(tensor: NDArray[Any]) -> int:
    """Of the numbers, and of what they are."""
    contiguous = np.ascontiguousarray(tensor)
    return zlib.crc32(contiguous.reshape(-1).view(np.uint8).data, zlib.crc32(f"{tensor.dtype}{tensor.shape}".encode()))


def _seal(content: State) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())


def damaged(path: Path, error: Exception) -> SparclError:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    before = int(path.stem) - 1
    advice = f"`sparcl undo {quoted(path.parent.parent)}` goes back to the state before it."
    if before and not path_of(path.parent, before).exists():
        advice = "No older state is kept: the learner must be made anew."
    return SparclError(f"{path} is damaged ({reason}). {advice}")
