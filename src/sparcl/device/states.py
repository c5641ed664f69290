"""The states of a learner on disk, one file each: whatever happens, the newest one is a whole one.

    states/0000000003.safetensors    after the third learning session: network, buffer, held-out pictures, history

A state is written under a temporary name, synced and renamed: the rename is the moment at which something is learned.
The newest number counts. Every array and the JSON beside them carry a checksum, so that a file which a worn-out memory
card has changed is noticed, and what a hostile one says is checked by whoever uses it.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from sparcl import tensor_files
from sparcl.errors import SparclError
from sparcl.files import Directory, atomic_writer
from sparcl.learning import checkpoints
from sparcl.learning.checkpoints import reason_of
from sparcl.tensor_files import UNREADABLE, SealedTensors, State, Tensors
from sparcl.wording import quoted

DIRECTORY = "states"


class States:
    """`directory` is the one that holds the states, and stays the same one whatever it is called by now."""

    def __init__(self, directory: Directory) -> None:
        self.directory = directory

    def numbers(self) -> list[int]:
        """Those that are there, the newest first."""
        return list(checkpoints.numbers(self.directory))

    def newest(self) -> int:
        """0: nothing has been learned yet."""
        return next(iter(self.numbers()), 0)

    def path(self, number: int) -> Path:
        """What to call it."""
        return self.directory.path / checkpoints.name_of(number)

    def size(self, number: int) -> int:
        """In bytes. Raises FileNotFoundError if it is gone."""
        with self.directory.open_file(checkpoints.name_of(number)) as file:
            return file.seek(0, 2)

    def identity(self, number: int) -> tuple[int, ...]:
        """Tells a state from every other, also from one of the same number after an undo. Raises FileNotFoundError."""
        try:
            with self.directory.open_file(checkpoints.name_of(number)) as file:
                found = os.fstat(file.fileno())
        except FileNotFoundError:
            raise
        except OSError as error:
            raise SparclError(f"{self.path(number)} could not be read: {error.strerror or error}.") from error
        return number, found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size

    def commit(self, number: int, tensors: Tensors, state: State, kept: int) -> None:
        """Write a new state; older ones than the last `kept` go."""
        checkpoints.save(self.directory, number, tensors, state, kept)

    def remove_newest(self) -> None:
        """The one before becomes the newest."""
        self.remove(self.newest())

    def remove(self, number: int) -> None:
        name = checkpoints.name_of(number)
        try:
            self.directory.remove(name)
            self.directory.sync()
        except OSError as error:
            raise self.directory.write_error(name, error) from error

    @contextlib.contextmanager
    def open(self, number: int) -> Iterator[SealedTensors]:
        """Raises FileNotFoundError if it is gone, SparclError if it is damaged."""
        try:
            file = self.directory.open_file(checkpoints.name_of(number))
        except FileNotFoundError:
            raise
        except OSError as error:
            raise SparclError(f"{self.path(number)} could not be read: {error.strerror or error}.") from error
        try:
            with file, tensor_files.opened(file) as sealed:
                yield sealed
        except UNREADABLE as error:
            raise self._damaged(number, error) from error

    def _damaged(self, number: int, error: Exception) -> SparclError:
        advice = f"`sparcl undo {quoted(self.directory.path.parent)}` goes back to the state before it."
        if number > 1 and number - 1 not in self.numbers():
            advice = "No older state is kept: make a new learner."
        return SparclError(f"{self.path(number)} is damaged ({reason_of(error)}). {advice}")


def write_sealed(path: Path, tensors: Tensors, state: State) -> None:
    with atomic_writer(path) as file:
        tensor_files.write(file, tensors, state)


def read_sealed(path: Path) -> tuple[Tensors, State]:
    """Everything in a file. Raises what UNREADABLE lists if anything in it has changed."""
    with open(path, "rb") as file:
        return tensor_files.read(file)
