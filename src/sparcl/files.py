"""Writing files so that a reader sees either the old content or the new one, whatever happens in between.

Every file is written under a temporary name in the same directory, flushed to the disk, and renamed over its target.
A crash leaves at most a temporary file behind, which the next writer of the same target replaces; in a directory that
one process holds for itself, whoever locks it next removes them all.

A `Directory` is held by its descriptor, not by its name. Whoever renames it while a program works in it takes
everything with it, and nothing is ever written into another directory that has its old name.
"""

import contextlib
import errno
import fcntl
import itertools
import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from sparcl.errors import SparclError
from sparcl.seals import unsealed

TEMPORARY_SUFFIX = ".partial"
LEFTOVER = re.compile(r".*\.partial|\.tmp\w{6}")  # ours, and those of safetensors, which version 0.1.0 wrote with
LOCK_ATTEMPTS = 10  # `is_locked` holds a directory for less than the time between two of them


class BusyError(SparclError):
    """Another process holds the directory."""


class Directory:
    """A directory that stays the same one, whatever it is called by now. `path` is what it was called."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path, self._descriptor = path, descriptor

    @classmethod
    def open(cls, path: Path) -> "Directory":
        """Raises OSError if it does not exist."""
        return cls(path, os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    def __enter__(self) -> "Directory":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def fileno(self) -> int:
        return self._descriptor

    # Looking

    def is_at(self, path: Path) -> bool:
        """Whether this is the directory that the path leads to."""
        try:
            found, own = path.stat(), os.fstat(self._descriptor)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino)

    def current_path(self) -> Path:
        """Where it is now; raises SparclError if it was removed."""
        if self.is_at(self.path):
            return self.path
        found = Path(f"/proc/self/fd/{self._descriptor}").readlink()
        if not self.is_at(found):
            raise self.gone()
        return found

    def names(self) -> list[str]:
        return os.listdir(self._descriptor)  # noqa: PTH208 (it has no path)

    def exists(self, name: str) -> bool:
        return os.access(name, os.F_OK, dir_fd=self._descriptor)

    def read_bytes(self, name: str) -> bytes:
        """Raises OSError."""
        with self.open_file(name) as file:
            return file.read()

    def open_file(self, name: str, flags: int = os.O_RDONLY) -> BinaryIO:
        """Raises OSError. With O_APPEND a missing file is created."""
        descriptor = os.open(name, flags | os.O_CLOEXEC, 0o666, dir_fd=self._descriptor)
        return open(descriptor, "ab" if flags & os.O_APPEND else "rb")

    # Changing

    def subdirectory(self, name: str, make: bool = False) -> "Directory":
        """Raises OSError if it does not exist and must not be created."""
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=self._descriptor)
                self.sync()
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        return Directory(self.path / name, os.open(name, flags, dir_fd=self._descriptor))

    @contextlib.contextmanager
    def writer(self, name: str, durable: bool = True) -> Iterator[BinaryIO]:
        """A file to write to; on success it replaces the file of this name, on any error it vanishes.

        What is not durable may be lost in a power cut.
        """
        temporary = name + TEMPORARY_SUFFIX
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        try:
            with open(os.open(temporary, flags, 0o666, dir_fd=self._descriptor), "wb") as file:
                yield file
                file.flush()
                if durable:
                    os.fsync(file.fileno())
            os.replace(temporary, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
            if durable:
                self.sync()
        except BaseException as error:
            with contextlib.suppress(OSError):  # if it cannot even be looked for, it is not there
                os.unlink(temporary, dir_fd=self._descriptor)
            if isinstance(error, OSError):
                raise self.write_error(name, error) from error
            raise

    def write_bytes(self, name: str, content: bytes, durable: bool = True) -> None:
        with self.writer(name, durable) as file:
            file.write(content)

    def remove(self, name: str) -> None:
        """Raises OSError, also if it does not exist."""
        os.unlink(name, dir_fd=self._descriptor)

    def remove_leftovers(self, *inside: str) -> None:
        """Remove the temporary files of whoever was killed here, and in these subdirectories. Only under a lock."""
        for name in filter(LEFTOVER.fullmatch, self.names()):
            with contextlib.suppress(OSError):  # a directory, or one that may not be removed: nobody reads it
                self.remove(name)
        for name in inside:
            with contextlib.suppress(OSError), self.subdirectory(name) as subdirectory:
                subdirectory.remove_leftovers()

    def sync(self) -> None:
        """Make renames in it survive a power cut."""
        os.fsync(self._descriptor)

    def write_error(self, name: str, error: OSError) -> SparclError:
        """The one line for a failed write in here."""
        if error.errno == errno.ENOENT and os.fstat(self._descriptor).st_nlink == 0:
            return self.gone()
        return write_error(self.path / name, error)

    def gone(self) -> SparclError:
        return SparclError(
            f"{self.path} was moved or removed while work was being done in it. "
            "Nothing was written to what is there now."
        )


@contextlib.contextmanager
def atomic_writer(path: Path) -> Iterator[BinaryIO]:
    """A file to write to; on success it replaces `path`, on any error it vanishes."""
    if not path.name:
        raise SparclError(f"{path} is a directory. Name the file to write.")
    try:
        make_directory(path.parent)
        directory = Directory.open(path.parent)
    except OSError as error:
        raise write_error(path, error) from error
    with directory, directory.writer(path.name) as file:
        yield file


def write_bytes(path: Path, content: bytes) -> None:
    with atomic_writer(path) as file:
        file.write(content)


def write_text(path: Path, content: str) -> None:
    write_bytes(path, content.encode())


def write_json(path: Path, content: Any) -> None:
    write_bytes(path, as_json(content))


def as_json(content: Any) -> bytes:
    return json.dumps(content, indent=2).encode() + b"\n"


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SparclError(f"{path} could not be read: {error.strerror}.") from error
    return from_json(content, path)


def from_json(text: bytes, path: Path) -> dict[str, Any]:
    """The JSON object that a file holds, without its seal; files of version 0.1.0 have none."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SparclError(f"{path} is damaged: {error}.") from error
    if not isinstance(content, dict):
        raise SparclError(f"{path} is damaged: it does not hold a JSON object.")
    try:
        return unsealed(content)
    except ValueError:
        raise SparclError(
            f"{path} has changed since it was written: it is damaged, or somebody edited it. "
            "Put it back as it was, or start again in a new directory."
        ) from None


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
def locked(path: Path) -> Iterator[Directory]:
    """Hold a directory for this process alone; a second one is told so, unless the first only looks."""
    for attempt in itertools.count(1):
        with Directory.open(path) as directory:
            if _takes_lock(directory) and directory.is_at(path):  # not one that was renamed since it was opened
                yield directory
                return
        if attempt == LOCK_ATTEMPTS:
            raise BusyError(f"Another process is working in {path}. Wait until it has finished.")
        time.sleep(0.02)


def _takes_lock(directory: Directory) -> bool:
    try:
        fcntl.flock(directory.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


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
