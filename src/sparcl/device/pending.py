"""A learning session that has begun: its decoded pictures and its checkpoints, so that it survives a power cut.

    learning/                            made when the first picture is read
    learning/images.bin                  the decoded pictures, one after another
    learning/task.safetensors            their labels, what is held out, the classes, the budget: written last
    learning/checkpoints/*.safetensors   where learning stands
    dropped/                             the same directory once the session is over, until it is removed

The pictures themselves are no longer needed once the task file is there: the memory card they came from may be gone.
"""

import math
import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparcl import tensor_files
from sparcl.checked import check
from sparcl.errors import SparclError
from sparcl.files import Directory
from sparcl.learning import checkpoints
from sparcl.tensor_files import UNREADABLE, State, Tensors
from sparcl.wording import quoted

DIRECTORY, DROPPED = "learning", "dropped"
IMAGES, TASK, CHECKPOINTS = "images.bin", "task.safetensors", "checkpoints"


@dataclass(frozen=True)
class LearnRequest:
    """What was asked for."""

    base: int  # the state it begins from
    classes: tuple[str, ...]  # all that are known once it is learned
    new: int  # how many of them were not known before
    size: int
    count: int  # of pictures
    checksum: int  # of the pictures
    skipped: tuple[str, ...]  # pictures that could not be read, and why
    minutes: float | None
    epochs: int | None


@dataclass(frozen=True)
class PendingTask:
    """The task file: what was asked for, and everything about the pictures but the pictures."""

    request: LearnRequest
    tensors: Tensors


@dataclass(frozen=True)
class Pending:
    """A session whose pictures are all here."""

    request: LearnRequest
    images: NDArray[np.uint8]  # mapped from the disk
    labels: NDArray[np.int64]
    held_out: NDArray[np.bool_]


class PendingDirectory:
    """`home` is the learner's directory. What is to be removed is renamed first, so that a power cut never leaves a
    part of a session that looks like one which was interrupted."""

    def __init__(self, home: Directory) -> None:
        self._home = home

    def begun(self) -> bool:
        """Whether there is a session that is not finished; perhaps its pictures were still being read."""
        return self._home.exists(DIRECTORY)

    def exists(self) -> bool:
        """Whether there is one that can be resumed, because all of its pictures are here."""
        return self._home.exists(f"{DIRECTORY}/{TASK}")

    def clear(self) -> None:
        """Nothing is pending any more."""
        self.remove_dropped()
        try:
            os.rename(DIRECTORY, DROPPED, src_dir_fd=self._home.fileno(), dst_dir_fd=self._home.fileno())
            self._home.sync()
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._home.write_error(DIRECTORY, error) from error
        self.remove_dropped()

    def remove_dropped(self) -> None:
        """What is left of a session that is over."""
        if self._home.exists(DROPPED):
            shutil.rmtree(DROPPED, ignore_errors=True, dir_fd=self._home.fileno())

    def write_images(self, blocks: Iterator[NDArray[np.uint8]]) -> int:
        """Write pictures as they are decoded; returns their checksum. They count only once `write` is done."""
        found = 0
        try:
            with self._opened(make=True) as directory, directory.writer(IMAGES) as file:
                for block in blocks:
                    file.write(block.tobytes())
                    found = zlib.crc32(block.tobytes(), found)
        except OSError as error:
            raise self._home.write_error(DIRECTORY, error) from error
        return found

    def write(self, request: LearnRequest, labels: NDArray[np.int64], held_out: NDArray[np.bool_]) -> Pending:
        """From here on the session can be resumed."""
        with self._opened() as directory:
            checkpoints.write(directory, TASK, {"labels": labels, "held_out": held_out}, asdict(request))
        try:
            return Pending(request, self._map_images(request), labels, held_out)
        except UNREADABLE as error:
            raise self._damaged(error) from error

    def read_task(self) -> PendingTask:
        """Without the pictures; raises SparclError if it cannot be read."""
        try:
            with self._opened() as directory, directory.open_file(TASK) as file:
                tensors, state = tensor_files.read(file)
            fields = {name: state[name] for name in LearnRequest.__dataclass_fields__}
            return PendingTask(check(LearnRequest, fields), tensors)
        except UNREADABLE as error:
            raise self._damaged(error) from error

    def read(self, task: PendingTask) -> Pending:
        """With its pictures; raises SparclError if they have changed."""
        request = task.request
        try:
            images = self._map_images(request)
            if zlib.crc32(images.data) != request.checksum:
                raise ValueError(f"{IMAGES} has changed")
            return Pending(request, images, *_checked(request, task.tensors))
        except UNREADABLE as error:
            raise self._damaged(error) from error

    def _map_images(self, request: LearnRequest) -> NDArray[np.uint8]:
        with self._opened() as directory, directory.open_file(IMAGES) as file:
            shape = (request.count, 3, request.size, request.size)
            if os.fstat(file.fileno()).st_size != math.prod(shape):
                raise ValueError(f"{IMAGES} has the wrong size")
            return np.memmap(file, np.uint8, mode="r", shape=shape).view(np.ndarray)

    def write_content(self, name: str, content: bytes) -> None:
        """A file of a session of another kind, which is begun with it."""
        try:
            with self._opened(make=True) as directory:
                directory.write_bytes(name, content)
        except OSError as error:
            raise self._home.write_error(DIRECTORY, error) from error

    def read_content(self, name: str) -> bytes:
        """Raises OSError if it is not there."""
        with self._opened() as directory:
            return directory.read_bytes(name)

    # Where it stands

    def save(self, number: int, tensors: Tensors, state: State) -> None:
        try:
            with self._opened() as learning, learning.subdirectory(CHECKPOINTS, make=True) as directory:
                checkpoints.save(directory, number, tensors, state)
        except OSError as error:
            raise self._home.write_error(DIRECTORY, error) from error

    def load(self, note: Callable[[str], None]) -> tuple[Tensors, State] | None:
        """The newest checkpoint that is whole; None: learning has not got that far. What is passed over is noted."""
        if not self._home.exists(f"{DIRECTORY}/{CHECKPOINTS}"):
            return None
        problem = None
        with self._home.subdirectory(f"{DIRECTORY}/{CHECKPOINTS}") as directory:
            for name in checkpoints.newest_first(directory):
                try:
                    with directory.open_file(name) as file:
                        found = tensor_files.read(file)
                except UNREADABLE as error:
                    problem = problem or f"{directory.path / name} is damaged ({checkpoints.reason_of(error)})."
                    continue
                if problem:
                    note(f"{problem} Continuing from the checkpoint before it.")
                return found
        if problem:
            raise self._damaged(ValueError("no checkpoint can be read"))
        return None

    def _opened(self, make: bool = False) -> Directory:
        return self._home.subdirectory(DIRECTORY, make)

    def _damaged(self, error: Exception) -> SparclError:
        return SparclError(
            f"The learning session that was interrupted in {self._home.path} is damaged "
            f"({checkpoints.reason_of(error)}). Drop it with `sparcl undo {quoted(self._home.path)}`; "
            "the learner itself is whole."
        )


def _checked(request: LearnRequest, tensors: Tensors) -> tuple[NDArray[Any], NDArray[Any]]:
    labels, held_out = tensors["labels"], tensors["held_out"]
    if labels.dtype != np.int64 or held_out.dtype != bool or not labels.shape == held_out.shape == (request.count,):
        raise ValueError("the labels do not fit the pictures")
    if not ((labels >= 0) & (labels < len(request.classes))).all() or held_out.all():
        raise ValueError("there are labels without a class, or no pictures to learn from")
    if not 0 <= request.new <= len(request.classes) or request.base < 0:
        raise ValueError("the classes contradict each other")
    return labels, held_out
