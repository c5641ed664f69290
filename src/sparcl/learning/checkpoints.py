"""Checkpoints: one sealed file each (`tensor_files`), the arrays as tensors and everything else as JSON in its header.

A checkpoint is written under a temporary name and renamed, so a crash at any moment leaves the older ones whole. The
last two are kept: should the disk damage the newest, the one before still serves.
"""

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import TypeVar

from sparcl import tensor_files
from sparcl.errors import SparclError
from sparcl.files import Directory
from sparcl.tensor_files import UNREADABLE, State, Tensors

KEPT = 2
NAME = re.compile(r"\d{10}\.safetensors")
Restored = TypeVar("Restored")


def save(directory: Directory, number: int, tensors: Tensors, state: State, kept: int = KEPT) -> None:
    """Write checkpoint `number`; older ones than the last `kept` go."""
    write(directory, name_of(number), tensors, state)
    for stale in newest_first(directory)[kept:]:
        with contextlib.suppress(OSError):  # the checkpoint is there: what cannot be removed now is removed next time
            directory.remove(stale)


def restore_newest(
    directory: Directory, restore: Callable[[Tensors, State], Restored], note: Callable[[str], None], prefix: str = ""
) -> Restored | None:
    """What `restore` makes of the newest checkpoint that is whole and that it accepts; None if there is none at all.

    It refuses one with an error that UNREADABLE lists. Whatever is passed over is noted. With a prefix it gets only the
    tensors whose names begin with it.
    """
    passed_over: list[str] = []
    for name in newest_first(directory):
        try:
            content = read(directory, name, prefix)
        except UNREADABLE as error:
            passed_over.append(f"{directory.path / name} is damaged ({reason_of(error)}).")
            continue
        try:
            restored = restore(*content)
        except UNREADABLE as error:
            passed_over.append(f"{directory.path / name} does not belong to this run ({reason_of(error)}).")
            continue
        for problem in passed_over:
            note(f"{problem} Continuing from the checkpoint before it.")
        return restored
    if passed_over:
        raise SparclError(f"{passed_over[0]} No other checkpoint can be used. Start the run again in a new directory.")
    return None


def load_newest(directory: Directory, prefix: str = "") -> tuple[Tensors, State] | None:
    """The newest checkpoint that is whole, to look at; None if there is none at all."""
    return restore_newest(directory, lambda tensors, state: (tensors, state), lambda _: None, prefix)


def write(directory: Directory, name: str, tensors: Tensors, state: State) -> None:
    """One file, by one rename."""
    with directory.writer(name) as file:
        tensor_files.write(file, tensors, state)


def read(directory: Directory, name: str, prefix: str = "") -> tuple[Tensors, State]:
    """Raises what UNREADABLE lists if it is damaged. Version 0.1.0 did not seal the checkpoints of runs."""
    with directory.open_file(name) as file:
        return tensor_files.read(file, prefix, allow_unsealed=True)


def name_of(number: int) -> str:
    return f"{number:010d}.safetensors"


def newest_first(directory: Directory) -> list[str]:
    return sorted(filter(NAME.fullmatch, directory.names()), reverse=True)


def numbers(directory: Directory) -> Iterator[int]:
    """The newest first."""
    return (int(name.split(".")[0]) for name in newest_first(directory))


def reason_of(error: BaseException) -> str:
    """In one line."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
