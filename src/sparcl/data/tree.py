"""Reading a dataset's files alike from a folder, a .zip or a .tar archive, without trusting any of them.

An archive is never unpacked here: its members are read one at a time and only up to a limit, so that neither a path
that points outside nor a small archive that expands without end can do harm. Links and special files are refused.
"""

import gzip
import io
import lzma
import os
import stat
import sys
import tarfile
import zipfile
import zlib
from abc import ABC, abstractmethod
from functools import cached_property
from lzma import LZMAError
from pathlib import Path, PurePosixPath
from typing import Any

from sparcl.errors import SparclError

FILE_LIMIT = 64 * 2**20
"""No single file of an image dataset comes near this size; the largest known is a CIFAR-10 batch of 30 MB."""
EXPANSION_LIMIT = 100
"""How many times its own size an archive may expand to (images hardly compress at all)."""
EXPANSION_ALLOWANCE = 64 * 2**20
"""What any archive may expand to, however small it is."""
MEMORY_LIMIT = 2**30
"""What a .tar archive may hold, since all of it is kept in memory."""
DEPTH_LIMIT = 16
"""How many folders deep a file may lie."""
TAR_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.xz")

Stamp = tuple[str, int, int]
"""Name, size and time of the last change of a file; together they tell whether a dataset has changed."""


class Tree(ABC):
    """Files by their relative names, with '/' between the parts. Hidden and junk files are left out."""

    def __init__(self, location: Path, stamps: list[Stamp]) -> None:
        self.location = location
        self.stamps = stamps

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """The names of all files, sorted."""

    @property
    @abstractmethod
    def folders(self) -> list[str]:
        """The names of all folders, also of empty ones, as far as the tree records them."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """The whole content of one file."""

    def where(self, name: str) -> str:
        """How messages refer to one file."""
        return f"{self.location}: {shown(name)}"

    def read_text(self, name: str) -> str:
        try:
            return self.read(name).decode()
        except UnicodeDecodeError as error:
            raise SparclError(f"{self.where(name)} is not a text file. Unpack the dataset again.") from error


class FolderTree(Tree):
    """The files below a folder."""

    def __init__(self, folder: Path) -> None:
        self._folders: list[str] = []
        stamps: list[Stamp] = []
        try:
            _walk(str(folder), "", self._folders, stamps)
        except OSError as error:
            raise SparclError(
                f"{shown(str(error.filename or folder))} could not be read: {error.strerror or error}."
            ) from error
        super().__init__(folder, sorted(stamps))
        self._names = [name for name, _, _ in self.stamps]

    @property
    def names(self) -> list[str]:
        return self._names

    @property
    def folders(self) -> list[str]:
        return self._folders

    def read(self, name: str) -> bytes:
        path = self.location / name
        try:
            with open(path, "rb") as file:
                # Asking for no more than there is matters: Python sets aside as much memory as is asked for. Pipes do
                # not say how much there is.
                status = os.fstat(file.fileno())
                there = status.st_size if stat.S_ISREG(status.st_mode) else FILE_LIMIT
                content = file.read(min(there, FILE_LIMIT) + 1)
        except OSError as error:
            raise SparclError(f"{self.where(name)} could not be read: {error.strerror or error}.") from error
        return _within_limit(content, self.where(name))

    def where(self, name: str) -> str:
        return f"{self.location}/{shown(name)}"


def _walk(folder: str, prefix: str, folders: list[str], stamps: list[Stamp]) -> None:
    if prefix.count("/") > DEPTH_LIMIT:
        raise SparclError(f"{shown(folder)} is nested too deeply for a dataset. Give the folder that holds the images.")
    with os.scandir(folder) as entries:
        for entry in entries:
            if _is_junk(entry.name):
                continue
            # One status call for each file: a large dataset has a hundred thousand of them.
            status = entry.stat(follow_symlinks=False)
            name = prefix + entry.name
            if stat.S_ISREG(status.st_mode):
                stamps.append((name, status.st_size, status.st_mtime_ns))
            elif stat.S_ISDIR(status.st_mode):
                folders.append(name)
                _walk(entry.path, name + "/", folders, stamps)
            else:
                raise SparclError(f"{shown(entry.path)} is a link or a special file. Put the real file there.")


class ArchiveTree(Tree):
    """An archive, known by its own stamp. Its members are listed only when they are asked for, which takes seconds for
    a large one; a dataset that is in the cache never asks."""

    def __init__(self, path: Path) -> None:
        try:
            status = path.stat()
        except OSError as error:
            raise _broken(path, error) from error
        super().__init__(path, [(path.name, status.st_size, status.st_mtime_ns)])

    def _missing(self, name: str) -> SparclError:
        return SparclError(f"{self.where(name)} is missing.")


class ZipTree(ArchiveTree):
    """The members of a .zip archive, read where they are."""

    @property
    def names(self) -> list[str]:
        return [name for name in self._members if not name.endswith("/")]

    @property
    def folders(self) -> list[str]:
        return [name.rstrip("/") for name in self._members if name.endswith("/")]

    def read(self, name: str) -> bytes:
        if name not in self._members:
            raise self._missing(name)
        try:
            with self._archive.open(self._members[name]) as member:
                content = member.read(FILE_LIMIT + 1)
        except (zipfile.BadZipFile, zlib.error, LZMAError, EOFError, NotImplementedError, OSError, ValueError) as error:
            raise _broken(self.location, error, name) from error
        return _within_limit(content, self.where(name))

    @cached_property
    def _archive(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self.location)
        except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError) as error:
            raise _broken(self.location, error) from error

    @cached_property
    def _members(self) -> dict[str, zipfile.ZipInfo]:
        path, members, total = self.location, dict[str, zipfile.ZipInfo](), 0
        for member in sorted(self._archive.infolist(), key=lambda member: member.filename):
            name = member.filename
            _refuse_escape(path, name)
            if stat.S_ISLNK(member.external_attr >> 16):
                raise SparclError(f"{self.where(name)} is a link. Pack the archive again with the real files.")
            if member.flag_bits & 1:
                raise SparclError(f"{self.where(name)} is encrypted. Pack the archive without a password.")
            if name in members:
                raise SparclError(f"{path} holds {shown(name)} twice. Pack it again.")
            total += member.file_size
            if not _has_junk(name):
                members[name] = member
        _refuse_bomb(path, total)
        return members


class TarTree(ArchiveTree):
    """The members of a .tar archive, held in memory: a compressed one can only be read from front to back."""

    @property
    def names(self) -> list[str]:
        return sorted(self._contents)

    @property
    def folders(self) -> list[str]:
        return []  # only the sources that never look for empty folders read .tar archives

    def read(self, name: str) -> bytes:
        if name not in self._contents:
            raise self._missing(name)
        return self._contents[name]

    @cached_property
    def _contents(self) -> dict[str, bytes]:
        path, contents, total = self.location, dict[str, bytes](), 0
        try:
            with _Bounded(path) as expanded, tarfile.open(fileobj=expanded, mode="r:") as archive:
                for member in archive:
                    name = member.name.removeprefix("./")
                    _refuse_escape(path, name)
                    if member.isdir() or _has_junk(name):
                        continue
                    total += member.size  # a sparse member is larger than what the archive holds of it
                    _refuse_bomb(path, total)
                    if total > MEMORY_LIMIT:
                        raise SparclError(f"{path} holds more than {MEMORY_LIMIT >> 20} MB. Unpack it into a folder.")
                    file = archive.extractfile(member) if member.isreg() else None
                    if file is None:
                        raise SparclError(f"{self.where(name)} is a link or a special file, which is refused.")
                    if name in contents:
                        raise SparclError(f"{path} holds {shown(name)} twice. Pack it again.")
                    contents[name] = _within_limit(file.read(min(member.size, FILE_LIMIT) + 1), self.where(name))
        except (tarfile.TarError, zlib.error, LZMAError, EOFError, OSError, ValueError, RecursionError) as error:
            raise _broken(path, error) from error
        return contents


class _Bounded(io.BufferedIOBase):
    """The content of a .tar archive, compressed or not, of which no more is read than it may reasonably hold.

    `tarfile` reads some of its headers whole, however long they say they are: what is asked for is checked before.
    """

    _file: Any

    def __init__(self, path: Path) -> None:
        self._path, self._file = path, None
        with open(path, "rb") as file:
            start = file.read(6)
        opener = gzip.open if start[:2] == b"\x1f\x8b" else lzma.open if start == b"\xfd7zXZ\0" else open
        self._file = opener(path, "rb")

    def read(self, size: int | None = -1, /) -> bytes:
        size = -1 if size is None else size
        _refuse_bomb(self._path, self._file.tell() + size if size >= 0 else sys.maxsize)
        content: bytes = self._file.read(size)
        return content

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        if whence == os.SEEK_SET:
            _refuse_bomb(self._path, offset)
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        super().close()


def shown(name: str) -> str:
    """A file's name as a message may show it: on one line and without control characters, whatever is in it."""
    return name if name.isprintable() else ascii(name)


def open_tree(path: Path) -> Tree:
    """The tree at `path`, by what is there: a folder, or an archive named as one."""
    if path.is_dir():
        return FolderTree(path)
    if not path.exists():
        raise SparclError(f"{path} does not exist. Give the folder or the archive that holds the images.")
    if path.is_file() and path.suffix.lower() == ".zip":
        return ZipTree(path)
    if path.is_file() and path.name.lower().endswith(TAR_SUFFIXES):
        return TarTree(path)
    raise SparclError(f"{path} is neither a folder nor a .zip or .tar archive.")


def _is_junk(part: str) -> bool:
    """Files that operating systems scatter about, and everything hidden."""
    return part.startswith(".") or part in ("Thumbs.db", "desktop.ini", "__MACOSX")


def _has_junk(name: str) -> bool:
    return any(_is_junk(part) for part in PurePosixPath(name).parts)


def _within_limit(content: bytes, where: str) -> bytes:
    if len(content) > FILE_LIMIT:
        raise SparclError(f"{where} is larger than {FILE_LIMIT >> 20} MB. Make it smaller, or leave it out.")
    return content


def _refuse_escape(path: Path, name: str) -> None:
    parts = name.replace("\\", "/").split("/")
    if not name:
        raise SparclError(f"{path} is refused: it has a member without a name.")
    if name.startswith(("/", "\\")) or ".." in parts or ":" in parts[0] or "\0" in name:
        raise SparclError(f"{path} is refused: its member {name!r} points outside the archive.")


def _refuse_bomb(path: Path, expanded: int) -> None:
    if expanded > EXPANSION_ALLOWANCE + EXPANSION_LIMIT * path.stat().st_size:
        raise SparclError(f"{path} is refused: it would expand to more than {EXPANSION_LIMIT} times its size.")


def _broken(path: Path, error: Exception, name: str | None = None) -> SparclError:
    if isinstance(error, OSError) and error.strerror:
        return SparclError(f"{path} could not be read: {error.strerror}.")
    member = f" (at {shown(name)})" if name else ""
    return SparclError(f"{path} is damaged or incomplete{member}. Delete it and get it again.")
