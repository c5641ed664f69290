"""From folders, files, videos, cameras and arrays to the pictures of a task: decoded, checked, on the disk."""

import mimetypes
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparcl.data.frames import SUFFIXES, Frames, check_source, is_frame_source
from sparcl.data.pictures import Prepare, centre_square, decoded, prepared
from sparcl.data.source import Progress
from sparcl.data.tree import FolderTree, Tree, shown
from sparcl.device.held_out import digest
from sparcl.errors import SparclError
from sparcl.wording import quoted

Pictures = str | Path | Sequence[Any] | NDArray[Any]
"""A folder or a file; or many of them; or arrays [height, width], [height, width, 3 or 4], or Pillow images."""
Source = Pictures | Frames
"""What can be learned from: also a video or a camera, by its name (mug.mp4, camera:0) or as Frames, alone or among
others."""


class Gathered:
    """Labels and digests are known, and what was left out, once `blocks` has been gone through."""

    def __init__(self, sources: Mapping[int, Source], size: int, poll: Callable[[], None]) -> None:
        self._sources, self._size, self._poll = sources, size, poll
        self.labels: list[int] = []
        self.digests: list[int] = []
        self.skipped: list[str] = []
        self.copies: Counter[int] = Counter()  # by label: pictures that were there already
        self.notes: list[str] = []  # which frames of videos and cameras were taken

    def blocks(self, progress: Progress | None = None) -> Iterator[NDArray[np.uint8]]:
        """The pictures [n, 3, size, size] of all classes, one class after the other; each picture of a class once."""
        listed = {label: listed_pictures(source) for label, source in self._sources.items()}
        total = sum(item.most if isinstance(item, Frames) else 1 for items in listed.values() for item in items)
        done, together = 0, centre_square(self._size).together
        block: list[NDArray[np.uint8]] = []
        there: set[tuple[int, int]] = set()
        for label, items in listed.items():
            for picture in self._decoded(items):
                self._poll()
                done += 1
                if progress and done % 32 == 0:
                    progress("reading pictures", min(done, total), total)
                if isinstance(picture, SparclError):
                    self.skipped.append(str(picture))
                    continue
                content = digest(picture)
                if (label, content) in there:
                    self.copies[label] += 1
                    continue
                there.add((label, content))
                self.labels.append(label)
                self.digests.append(content)
                block.append(picture)
                if len(block) == together:
                    yield np.stack(block)
                    block = []
        if progress:
            progress("reading pictures", total, total)  # videos may have had fewer frames
        if block:
            yield np.stack(block)

    def _decoded(self, items: list[Any]) -> Iterator[NDArray[np.uint8] | SparclError]:
        from_files = decode_files([item for item in items if isinstance(item, tuple)], self._size)
        for item in items:
            if isinstance(item, tuple):
                yield next(from_files)
            elif isinstance(item, Frames):
                from sparcl.data.frames_reader import read_frames  # predicting does without it

                yield from read_frames(item, self._size, self.notes.append, self._poll)
            else:
                yield prepare_array(item, self._size)


def listed_files(path: Path) -> list[tuple[Tree, str]]:
    """All files of a folder, sorted by name, or the one that is named."""
    if path.is_dir():
        tree = FolderTree(path)
        return [(tree, name) for name in tree.names]
    if not path.exists():
        raise SparclError(f"{shown(str(path))} does not exist.")
    return [(_SingleFile(path), path.name)]


def decode_files(files: Sequence[tuple[Tree, str]], size: int) -> Iterator[NDArray[np.uint8] | SparclError]:
    return decoded(files, centre_square(size))


def decode_pictures(items: Sequence[Any], prepare: Prepare) -> Iterator[NDArray[np.uint8] | SparclError]:
    """Of what `listed_pictures` found, in order: the picture, or why there is none."""
    from_files = decoded([item for item in items if isinstance(item, tuple)], prepare)
    for item in items:
        if isinstance(item, tuple):
            yield next(from_files)
        elif isinstance(item, Frames):
            yield SparclError(f"{item.source} is a video or a camera. Give single pictures.")
        else:
            yield _prepared_array(item, prepare)


def prepare_array(picture: Any, size: int) -> NDArray[np.uint8]:
    """A picture that is in memory, through the same preparation as one from a file."""
    return _prepared_array(picture, centre_square(size))


def _prepared_array(picture: Any, prepare: Prepare) -> NDArray[np.uint8]:
    from PIL import Image

    kind = type(picture).__name__
    try:
        if not isinstance(picture, Image.Image):
            picture = Image.fromarray(np.asarray(picture))
        return prepared(picture, prepare)
    except SparclError as error:
        raise SparclError(f"A picture ({kind}) {error}") from error
    except (TypeError, ValueError, OSError, AttributeError, IndexError, KeyError) as error:
        raise SparclError(f"{kind} is no picture: give paths, Pillow images, or arrays [height, width, 3].") from error


class _SingleFile(FolderTree):
    """One file, whose name is shown as it was given."""

    def __init__(self, path: Path) -> None:
        Tree.__init__(self, path.parent, [])
        self._path = path

    def where(self, name: str) -> str:
        return shown(str(self._path))


def listed_pictures(source: Source) -> list[Any]:
    """Every picture of a class: (tree, name) of a file, Frames of a video, or what is in memory as it is."""
    if isinstance(source, str | Path) and is_frame_source(source):
        source = Frames(str(source))
    if isinstance(source, Frames):
        check_source(source)  # at once: nothing else may come of it
        return [source]
    if isinstance(source, str | Path):
        files = listed_files(Path(source))
        _check_class_folder(Path(source), [name for _, name in files])
        return [_video(tree, name) or (tree, name) for tree, name in files]
    items: list[Any] = []
    for picture in source:
        items += listed_pictures(picture) if isinstance(picture, str | Path | Frames) else [picture]
    return items


def _video(tree: Tree, name: str) -> Frames | None:
    """A video among the files of a folder."""
    return Frames(str(tree.location / name)) if name.lower().endswith(SUFFIXES) else None


def _check_class_folder(folder: Path, names: list[str]) -> None:
    if not names:
        raise SparclError(f"{shown(str(folder))} holds no pictures.")
    inside = {name.split("/")[0] for name in names if "/" in name}
    # Something else beside them (a list, a licence) does not make folders of classes the folder of one class.
    if len(inside) > 1 and not any("/" not in name and named_as_picture(name) for name in names):
        raise SparclError(
            f"{shown(str(folder))} holds folders, not pictures. If each of them is a class, give them one by one: "
            f"{shown(quoted(folder))}/*"
        )


def named_as_picture(name: str) -> bool:
    return (mimetypes.guess_type(name, strict=False)[0] or "").startswith(("image/", "video/"))
