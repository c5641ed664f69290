"""A learn that has begun: its decoded pictures and its checkpoints, so that it can go on after a power cut.

    learning/images.bin                  the decoded pictures, one after another
    learning/task.safetensors            their labels, what is held out, the classes, the budget: written last
    learning/checkpoints/*.safetensors   where learning stands

The pictures themselves are no longer needed once the task file is there: the memory card they came from may be gone.
"""

import contextlib
import shutil
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparcl.checked import check
from sparcl.device.states import read_sealed, write_sealed
from sparcl.errors import SparclError
from sparcl.files import Directory, make_directory, sync, write_error
from sparcl.learning import checkpoints
from sparcl.tensor_files import UNREADABLE, State, Tensors
from sparcl.wording import quoted


@dataclass(frozen=True)
class Order:
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
class Pending:
    """A learn that has begun."""

    order: Order
    images: NDArray[np.uint8]  # mapped from the disk
    labels: NDArray[np.int64]
    held_out: NDArray[np.bool_]


class PendingDirectory:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._images, self._task = directory / "images.bin", directory / "task.safetensors"
        self._checkpoints = directory / "checkpoints"

    def exists(self) -> bool:
        return self._task.is_file()

    def clear(self) -> None:
        """Nothing is pending any more; also removes what a power cut left while pictures were decoded."""
        try:
            with contextlib.suppress(FileNotFoundError):
                self._task.unlink()
                sync(self.directory)
        except OSError as error:
            raise write_error(self._task, error) from error
        shutil.rmtree(self.directory, ignore_errors=True)

    def write_images(self, blocks: Iterator[NDArray[np.uint8]]) -> int:
        """Write pictures as they are decoded; returns their checksum. They count only once `write` is done."""
        found = 0
        try:
            make_directory(self.directory)
            with open(self._images, "wb") as file:
                for block in blocks:
                    file.write(block.tobytes())
                    found = zlib.crc32(block.tobytes(), found)
            sync(self._images)
        except OSError as error:
            raise write_error(self._images, error) from error
        return found

    def map_images(self, count: int, size: int) -> NDArray[np.uint8]:
        mapped = np.memmap(self._images, np.uint8, mode="r", shape=(count, 3, size, size))
        if self._images.stat().st_size != mapped.nbytes:
            raise ValueError("images.bin has the wrong size")
        return mapped.view(np.ndarray)

    def write(self, order: Order, labels: NDArray[np.int64], held_out: NDArray[np.bool_]) -> None:
        write_sealed(self._task, {"labels": labels, "held_out": held_out}, asdict(order))

    def order(self) -> Order:
        """What was asked for; raises SparclError if it cannot be read."""
        return self._read_task()[0]

    def read(self) -> Pending:
        order, tensors = self._read_task()
        try:
            images = self.map_images(order.count, order.size)
            if zlib.crc32(images.data) != order.checksum:
                raise ValueError("images.bin has changed")
            return Pending(order, images, *_checked(order, tensors))
        except UNREADABLE as error:
            raise self._damaged(error) from error

    def _read_task(self) -> tuple[Order, Tensors]:
        try:
            tensors, state = read_sealed(self._task)
            fields = {name: state[name] for name in Order.__dataclass_fields__}
            return check(Order, fields), tensors
        except UNREADABLE as error:
            raise self._damaged(error) from error

    # Where it stands

    def save(self, number: int, tensors: Tensors, state: State) -> None:
        try:
            make_directory(self._checkpoints)
        except OSError as error:
            raise write_error(self._checkpoints, error) from error
        with Directory.open(self._checkpoints) as directory:
            checkpoints.save(directory, number, tensors, state)

    def load(self) -> tuple[Tensors, State] | None:
        """The newest checkpoint that is whole; None: learning has not got that far."""
        if not self._checkpoints.is_dir():
            return None
        with Directory.open(self._checkpoints) as directory:
            paths = [self._checkpoints / name for name in checkpoints.newest_first(directory)]
        for path in paths:
            with contextlib.suppress(*UNREADABLE):
                return read_sealed(path)
        if paths:
            raise self._damaged(ValueError("no checkpoint can be read"))
        return None

    def _damaged(self, error: Exception) -> SparclError:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        learner = self.directory.parent
        return SparclError(
            f"The learn that was interrupted in {learner} is damaged ({reason}). "
            f"Drop it with `sparcl undo {quoted(learner)}`; the learner itself is whole."
        )


def _checked(order: Order, tensors: Tensors) -> tuple[NDArray[Any], NDArray[Any]]:
    labels, held_out = tensors["labels"], tensors["held_out"]
    if labels.dtype != np.int64 or held_out.dtype != bool or not labels.shape == held_out.shape == (order.count,):
        raise ValueError("the labels do not fit the pictures")
    if not ((labels >= 0) & (labels < len(order.classes))).all() or held_out.all():
        raise ValueError("there are labels without a class, or no pictures to learn from")
    if not 0 <= order.new <= len(order.classes) or order.base < 0:
        raise ValueError("the classes contradict each other")
    return labels, held_out
