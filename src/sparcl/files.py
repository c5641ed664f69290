"""Writing files so that a reader sees either the old content or the new one, whatever happens in between.

Every file is written under a temporary name in the same directory, flushed to the disk, and renamed over its target.
A crash leaves at most a temporary file behind, which the next writer of the same target removes.
"""

import contextlib
import errno
import fcntl
import itertools
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from sparcl.errors import SparclError

TEMPORARY_SUFFIX = ".partial"
LOCK_ATTEMPTS = 10  # `is_locked` holds a directory for less than the time between two of them


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary path to write to; on success it replaces `path`, on any error it vanishes."""
    if not path.name:
        raise SparclError(f"{path} is a directory. Name the file to write.")
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        make_directory(path.parent)
        yield temporary
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):  # if it cannot even be looked for, it is not there
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise write_error(path, error) from error
        raise


@contextlib.contextmanager
def atomic_writer(path: Path) -> Iterator[BinaryIO]:
    """The same as an open binary file."""
    with atomic_path(path) as temporary, open(temporary, "wb") as file:
        yield file


def write_bytes(path: Path, content: bytes) -> None:
    with atomic_writer(path) as file:
        file.write(content)


def write_text(path: Path, content: str) -> None:
    write_bytes(path, content.encode())


def write_json(path: Path, content: Any) -> None:
    write_text(path, json.dumps(content, indent=2) + "\n")


def make_directory(path: Path) -> None:
    """Make a directory, if it is not there, that survives a power cut together with what is put into it."""
    if not path.is_dir():
        path.mkdir(parents=True, exist_ok=True)
        sync(path.parent)


def sync(path: Path) -> None:
    """Make the content of a file, or the renames in a directory, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_error(path: Path, error: OSError) -> SparclError:
    """The one line for a failed write; a full disk is named as such."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return SparclError(f"The disk is full: {path} could not be written. Free some space and try again.")
    return SparclError(f"{path} could not be written: {error.strerror or error}.")


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the directory for this process alone; a second one is told so, unless the first only looks."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        for attempt in itertools.count(1):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if attempt == LOCK_ATTEMPTS:
                    raise SparclError(
                        f"Another process is working in {directory}. Wait until it has finished."
                    ) from None
                time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)


def is_locked(directory: Path) -> bool:
    """Whether another process holds the directory just now. Several may ask at once."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
