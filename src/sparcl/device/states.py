"""The states of a learner on disk, one file each: whatever happens, the newest one is a whole one.

    states/0000000003.safetensors    after the third learn: network, buffer, held-out pictures, history, everything

A state is written under a temporary name, synced and renamed: the rename is the moment at which something is learned.
The newest number counts. Every array and the JSON beside them carry a checksum, so that a file which a worn-out memory
card has changed is noticed, and what a hostile one says is checked by whoever uses it.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from sparcl import tensor_files
from sparcl.errors import SparclError
from sparcl.files import Directory, atomic_writer, sync, write_error
from sparcl.learning import checkpoints
from sparcl.tensor_files import UNREADABLE, SealedTensors, State, Tensors
from sparcl.wording import quoted


class States:
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def numbers(self) -> list[int]:
        """Those that are there, the newest first."""
        if not self.directory.is_dir():
            return []
        with Directory.open(self.directory) as directory:
            return list(checkpoints.numbers(directory))

    def newest(self) -> int:
        """0: nothing has been learned yet."""
        return next(iter(self.numbers()), 0)

    def path(self, number: int) -> Path:
        return self.directory / checkpoints.name_of(number)

    def commit(self, number: int, tensors: Tensors, state: State, kept: int) -> None:
        """Write a new state; older ones than the last `kept` and what a power cut left half-written go."""
        with Directory.open(self.directory) as directory:
            checkpoints.save(directory, number, tensors, state, kept)
            directory.remove_leftovers()

    def remove_newest(self) -> None:
        """The one before becomes the newest."""
        path = self.path(self.newest())
        try:
            path.unlink()
            sync(self.directory)
        except OSError as error:
            raise write_error(path, error) from error

    @contextlib.contextmanager
    def open(self, number: int) -> Iterator[SealedTensors]:
        path = self.path(number)
        try:
            file = open(path, "rb")  # noqa: SIM115 (closed below)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise SparclError(f"{path} could not be read: {error.strerror or error}.") from error
        try:
            with file, tensor_files.opened(file) as sealed:
                yield sealed
        except FileNotFoundError:
            raise
        except UNREADABLE as error:
            raise damaged(path, error) from error


def write_sealed(path: Path, tensors: Tensors, state: State) -> None:
    with atomic_writer(path) as file:
        tensor_files.write(file, tensors, state)


def read_sealed(path: Path) -> tuple[Tensors, State]:
    """Everything in a file. Raises what UNREADABLE lists if anything in it has changed."""
    with open(path, "rb") as file:
        return tensor_files.read(file)


def damaged(path: Path, error: Exception) -> SparclError:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    before = int(path.stem) - 1
    advice = f"`sparcl undo {quoted(path.parent.parent)}` goes back to the state before it."
    if before and not (path.parent / checkpoints.name_of(before)).exists():
        advice = "No older state is kept: the learner must be made anew."
    return SparclError(f"{path} is damaged ({reason}). {advice}")
