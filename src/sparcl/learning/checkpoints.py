"""Checkpoints: one safetensors file each, the arrays as tensors and everything else as JSON in its header.

A checkpoint is written under a temporary name and renamed, so a crash at any moment leaves the older ones whole. The
last two are kept: should the newest be damaged by the disk, the one before still serves.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
from numpy.typing import NDArray
from safetensors.numpy import save_file

from sparcl.errors import SparclError
from sparcl.files import TEMPORARY_SUFFIX, atomic_path

KEPT = 2
Tensors = dict[str, NDArray[Any]]
UNREADABLE = (safetensors.SafetensorError, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)


def save(directory: Path, number: int, tensors: Tensors, state: dict[str, Any]) -> None:
    """Write checkpoint `number`; remove the old ones and what a crash left half-written."""
    write(path_of(directory, number), tensors, state)
    for stale in [*newest_first(directory)[KEPT:], *directory.glob("*" + TEMPORARY_SUFFIX)]:
        stale.unlink(missing_ok=True)


def write(path: Path, tensors: Tensors, state: dict[str, Any]) -> None:
    """One file, by one rename."""
    contiguous = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    with atomic_path(path) as temporary:
        try:
            save_file(contiguous, temporary, metadata={"state": json.dumps(state)})
            temporary.chmod(0o666 & ~_umask())  # safetensors lets nobody else read it
        except safetensors.SafetensorError as error:
            raise as_os_error(error) from error


def load_newest(directory: Path, prefix: str = "") -> tuple[Tensors, dict[str, Any]] | None:
    """The newest checkpoint that can be read whole, or None if there is none at all.

    With a prefix only the tensors are read whose names begin with it.
    """
    paths = newest_first(directory)
    for path in paths:
        try:
            return read(path, prefix)
        except UNREADABLE:
            continue
    if paths:
        raise SparclError(f"No checkpoint in {directory} can be read; they are damaged. Start the run anew.")
    return None


def read(path: Path, prefix: str = "") -> tuple[Tensors, dict[str, Any]]:
    with safetensors.safe_open(path, framework="numpy") as file:
        state = json.loads(file.metadata()["state"])
        if not isinstance(state, dict):
            raise ValueError("the state is not a JSON object")
        names = [name for name in file.keys() if name.startswith(prefix)]  # noqa: SIM118 (not a dict)
        return {name: file.get_tensor(name) for name in names}, state


def path_of(directory: Path, number: int) -> Path:
    return directory / f"{number:010d}.safetensors"


def newest_first(directory: Path) -> list[Path]:
    if not directory.is_dir():
        return []
    return sorted(
        (path for path in directory.iterdir() if re.fullmatch(r"\d{10}\.safetensors", path.name)), reverse=True
    )


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def as_os_error(error: safetensors.SafetensorError) -> OSError:
    """safetensors reports a failed write only in words; the number in them says what it was."""
    found = re.search(r"os error (\d+)", str(error))
    number = int(found.group(1)) if found else 5
    return OSError(number, os.strerror(number))
