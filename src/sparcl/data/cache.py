"""Decode once, map into memory ever after.

A decoded dataset is a directory of plain arrays below the cache directory:

    <dataset>-<fingerprint>/  train_images.npy  train_labels.npy  test_images.npy  test_labels.npy  meta.json

The fingerprint covers the names, sizes and times of the source's files, the decoding options and the format, so a
changed dataset is decoded anew, and what it was before is removed. The directory is written under another name and
renamed when it is complete; a lock lets one process decode while others that want the same dataset wait for it. A
directory that does not agree with its own meta.json is thrown away and written again.
"""

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparcl import files
from sparcl.data.source import Contents, DecodingOptions, Progress, Source, Split
from sparcl.data.store import ChannelStatistics, Store, cache_directory, checked_blocks, read_into_memory
from sparcl.data.tree import Tree

FORMAT = 1
"""Goes up whenever the same files and options would be decoded to something else."""


def load_store(source: Source, root: Path | None, options: DecodingOptions, progress: Progress | None) -> Store:
    """The decoded images of a source: from the cache if they are there, otherwise decoded into it first."""
    tree = source.files(root)
    if tree is None:
        return read_into_memory(source.read(tree, options), progress)
    target = cache_directory() / f"{source.name}-{fingerprint(tree, options)}"
    store = open_store(target)
    if store is not None:
        return store
    with _only_writer(target, progress):
        store = open_store(target)  # another process may have written it while this one waited
        if store is None:
            origin = _origin(tree, options)
            _write_store(target, source.read(tree, options), origin, progress)
            store = open_store(target)
            _remove_older(target, source.name, origin)
    if store is None:
        raise OSError(f"{target} was written but does not read back")
    return store


def fingerprint(tree: Tree, options: DecodingOptions) -> str:
    described = [FORMAT, str(tree.location.resolve()), dataclasses.asdict(options), tree.stamps]
    return _digest(described)


def _origin(tree: Tree, options: DecodingOptions) -> str:
    """The same for all states that the files in one place have had."""
    return _digest([str(tree.location.resolve()), dataclasses.asdict(options)])


def _digest(described: list[Any]) -> str:
    return hashlib.sha256(json.dumps(described).encode()).hexdigest()[:16]


def _remove_older(newest: Path, name: str, origin: str) -> None:
    """Nobody can ask for what the same files were before. Whoever has it mapped keeps it until the end."""
    for other in newest.parent.glob(f"{name}-*/meta.json"):
        with contextlib.suppress(OSError, ValueError, AttributeError, RecursionError):
            if other.parent != newest and json.loads(other.read_text()).get("origin") == origin:
                shutil.rmtree(other.parent)


def open_store(directory: Path) -> Store | None:
    """The store in `directory`, or None if it is not there, not complete or not what its meta.json says."""
    try:
        meta = json.loads((directory / "meta.json").read_text())
        shape = _shape(meta["image_shape"])
        names = tuple(str(name) for name in meta["class_names"])
        arrays: list[Any] = []
        for split in ("train", "test"):
            count = int(meta[split]["count"])
            images = _map_images(directory / f"{split}_images.npy", (count, *shape))
            labels = np.load(directory / f"{split}_labels.npy", allow_pickle=False)
            if labels.dtype != np.int64 or labels.shape != (count,) or _checksum(labels) != meta[split]["labels"]:
                return None
            arrays += [images, labels]
        mean, std = (tuple(float(value) for value in meta[key]) for key in ("mean", "std"))
        return Store(names, shape, mean, std, *arrays) if len(mean) == len(std) == shape[0] else None
    except (OSError, ValueError, KeyError, TypeError, EOFError, SyntaxError):
        # Whatever is wrong with a cache, the remedy is the same: decode again.
        return None


def _shape(stored: list[int]) -> tuple[int, int, int]:
    channels, height, width = (int(length) for length in stored)
    return channels, height, width


def _map_images(path: Path, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    if 0 in shape:
        raise ValueError("an empty array cannot be mapped")
    mapped: np.memmap[Any, np.dtype[np.uint8]] = np.load(path, mmap_mode="r", allow_pickle=False)
    if mapped.dtype != np.uint8 or mapped.shape != shape or not mapped.flags.c_contiguous:
        raise ValueError(f"{path} is not what meta.json says")
    if path.stat().st_size != mapped.offset + mapped.nbytes:
        raise ValueError(f"{path} has the wrong size")
    return mapped.view(np.ndarray)


def _checksum(labels: NDArray[np.int64]) -> int:
    return zlib.crc32(np.ascontiguousarray(labels).tobytes())


@contextlib.contextmanager
def _only_writer(target: Path, progress: Progress | None) -> Iterator[None]:
    """Hold the lock for `target`; the operating system releases it even if this process is killed."""
    lock = target.with_name(target.name + ".lock")
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(lock, os.O_CREAT | os.O_WRONLY, 0o644)
    except OSError as error:
        raise files.write_error(lock, error) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if progress:
                progress("waiting for another process that is decoding it", 0, 0)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write_store(target: Path, contents: Contents, origin: str, progress: Progress | None) -> None:
    partial = target.with_name(target.name + files.TEMPORARY_SUFFIX)
    try:
        # Left behind by a process that was killed, or damaged: the lock says that nobody else is at work here.
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(target, ignore_errors=True)
        partial.mkdir()
        statistics = ChannelStatistics(contents.image_shape[0])
        meta: dict[str, Any] = {"class_names": contents.class_names, "image_shape": contents.image_shape}
        meta["origin"] = origin
        meta["train"] = _write_split(partial, "train", contents, contents.train, progress, statistics)
        meta["test"] = _write_split(partial, "test", contents, contents.test, progress, None)
        meta["mean"], meta["std"] = statistics.result()
        files.write_json(partial / "meta.json", meta)
        partial.rename(target)
        files.sync(target.parent)
    except BaseException as error:
        shutil.rmtree(partial, ignore_errors=True)
        if isinstance(error, OSError):
            raise files.write_error(target, error) from error
        raise


def _write_split(
    directory: Path,
    name: str,
    contents: Contents,
    split: Split,
    progress: Progress | None,
    statistics: ChannelStatistics | None,
) -> dict[str, int]:
    labels = np.empty(split.count, dtype=np.int64)
    done = 0
    # Written as a file, not through a memory map: a full disk is then an error and not a killed process.
    with open(directory / f"{name}_images.npy", "wb") as file:
        header = {"descr": "|u1", "fortran_order": False, "shape": (split.count, *contents.image_shape)}
        np.lib.format.write_array_header_1_0(file, header)
        for block_images, block_labels in checked_blocks(contents, split, f"decoding {name} images", progress):
            file.write(block_images.data)
            labels[done : done + len(block_labels)] = block_labels
            done += len(block_labels)
            if statistics:
                statistics.add(block_images)
    with open(directory / f"{name}_labels.npy", "wb") as file:
        np.lib.format.write_array(file, labels, allow_pickle=False)
    for kind in ("images", "labels"):
        files.sync(directory / f"{name}_{kind}.npy")
    return {"count": split.count, "labels": _checksum(labels)}
