"""The decoded images of a dataset, and where decoded images and original files are kept on this computer."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sparcl.data.source import Block, Contents, Progress, Split


@dataclass(frozen=True)
class Store:
    """All images of a dataset, decoded; a label is the place of the class in class_names."""

    class_names: tuple[str, ...]
    image_shape: tuple[int, int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    train_images: NDArray[np.uint8]
    train_labels: NDArray[np.int64]
    test_images: NDArray[np.uint8]
    test_labels: NDArray[np.int64]


class ChannelStatistics:
    """Mean and standard deviation of each channel, exact because it counts how often each grey level occurs."""

    def __init__(self, channels: int) -> None:
        self._counts = np.zeros((channels, 256), dtype=np.int64)

    def add(self, images: NDArray[np.uint8]) -> None:
        for channel, counts in enumerate(self._counts):
            counts += np.bincount(images[:, channel].ravel(), minlength=256)

    def result(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        levels = np.arange(256) / 255.0
        shares = self._counts / self._counts.sum(axis=1, keepdims=True)
        mean = shares @ levels
        std = np.sqrt((shares * (levels - mean[:, None]) ** 2).sum(axis=1))
        # Images of one colour must not lead to a division by zero: nothing varies, so nothing is scaled.
        std[std < 1e-6] = 1.0
        return tuple(mean.tolist()), tuple(std.tolist())


def data_directory() -> Path:
    """Where the original files of datasets are looked for: $SPARCL_DATA or ~/.local/share/sparcl."""
    return Path(os.environ.get("SPARCL_DATA") or Path.home() / ".local" / "share" / "sparcl")


def cache_directory() -> Path:
    """Where decoded images are kept: $SPARCL_CACHE or ~/.cache/sparcl."""
    return Path(os.environ.get("SPARCL_CACHE") or Path.home() / ".cache" / "sparcl")


def checked_blocks(contents: Contents, split: Split, what: str, progress: Progress | None) -> Iterator[Block]:
    """The blocks of a split, each checked against what the source has announced."""
    done = 0
    if progress:
        progress(what, done, split.count)
    for images, labels in split.blocks:
        if images.dtype != np.uint8 or images.shape != (len(labels), *contents.image_shape):
            raise TypeError(f"a source gave {images.dtype} images of shape {images.shape}, not {contents.image_shape}")
        if len(labels) and not (labels.min() >= 0 and labels.max() < len(contents.class_names)):
            raise ValueError("a source gave a label outside its classes")
        yield np.ascontiguousarray(images), np.ascontiguousarray(labels, dtype=np.int64)
        done += len(labels)
        if progress:
            progress(what, done, split.count)
    if done != split.count:
        raise ValueError(f"a source announced {split.count} images and gave {done}")


def read_into_memory(contents: Contents, progress: Progress | None = None) -> Store:
    """Decode everything into arrays; for the small datasets that come with the package."""
    splits = []
    statistics = ChannelStatistics(contents.image_shape[0])
    for split, what in ((contents.train, "training images"), (contents.test, "test images")):
        images = np.empty((split.count, *contents.image_shape), dtype=np.uint8)
        labels = np.empty(split.count, dtype=np.int64)
        start = 0
        for block_images, block_labels in checked_blocks(contents, split, what, progress):
            images[start : start + len(block_labels)] = block_images
            labels[start : start + len(block_labels)] = block_labels
            start += len(block_labels)
        splits.append((images, labels))
    statistics.add(splits[0][0])
    return Store(contents.class_names, contents.image_shape, *statistics.result(), *splits[0], *splits[1])
