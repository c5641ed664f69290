"""A disk that forgets what was not synced, and one that fails: file operations are watched from inside the process."""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

from sparcl import tensor_files

WATCHED = ("fsync", "replace", "rename", "unlink", "mkdir", "rmdir", "chmod")


class WatchedDisk:
    """Calls `before_each(name)` before every file operation below `root`, and knows what a power cut cannot take away.

    What survives for certain: the bytes a file had when it was last synced, and the names a folder had when it was.
    """

    def __init__(self, root: Path, monkeypatch) -> None:
        self.root, self.operations = root, 0
        self.before_each: Callable[[str], None] = lambda name: None
        self._bytes: dict[int, bytes] = {}
        self._names: dict[int, dict[str, int]] = {}
        self._held: list[int] = []  # open descriptors, so that no number of a file is given to another one
        for folder in (root, *(path for path in root.rglob("*") if path.is_dir())):
            self._remember(folder)
            for path in folder.iterdir():
                if path.is_file():
                    self._remember(path)
        for name in WATCHED:
            monkeypatch.setattr(os, name, self._watched(name, getattr(os, name)))
        monkeypatch.setattr(tensor_files, "write", self._watched("write", tensor_files.write))

    def _watched(self, name, original):
        def operation(target, *arguments, **options):
            self.operations += 1
            self.before_each(name)
            result = original(target, *arguments, **options)
            if name == "fsync":
                self._remember(Path(f"/proc/self/fd/{target}").readlink())
            return result

        return operation

    def _remember(self, path: Path) -> None:
        status = path.stat()
        self._held.append(os.open(path, os.O_RDONLY))
        if stat.S_ISDIR(status.st_mode):
            self._names[status.st_ino] = {entry.name: entry.inode() for entry in os.scandir(path)}
            self._held += [os.open(entry.path, os.O_RDONLY) for entry in os.scandir(path)]
        else:
            self._bytes[status.st_ino] = path.read_bytes()

    def what_survives(self) -> dict[str, bytes | None]:
        """Relative names and contents after a power cut now, if everything is lost that may be; None: a folder."""
        return self._below(self.root.stat().st_ino, "")

    def _below(self, folder: int, prefix: str) -> dict[str, bytes | None]:
        found: dict[str, bytes | None] = {}
        for name, number in self._names.get(folder, {}).items():
            if number in self._names or number not in self._bytes:
                inside = self._below(number, f"{prefix}{name}/")
                # Neither a folder nor a file was synced under this number: a file whose content is lost.
                found |= {f"{prefix}{name}": None, **inside} if number in self._names else {f"{prefix}{name}": b""}
            else:
                found[prefix + name] = self._bytes[number]
        return found

    def what_is_there(self) -> dict[str, bytes | None]:
        """The same if the disk had written everything at once."""
        return {
            str(path.relative_to(self.root)): path.read_bytes() if path.is_file() else None
            for path in sorted(self.root.rglob("*"))
        }

    def close(self) -> None:
        for descriptor in self._held:
            os.close(descriptor)


def write_tree(root: Path, content: dict[str, bytes | None]) -> Path:
    for name, written in content.items():
        path = root / name
        if written is None:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(written)
    return root


def full(name: str) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
