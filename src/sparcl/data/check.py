"""Going through a dataset file by file, without the cache, to see whether it is all there and can be decoded."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sparcl.data.download import ARCHIVES, digest_is_right
from sparcl.data.source import DecodingOptions, Progress, Source
from sparcl.data.store import checked_blocks
from sparcl.errors import SparclError


@dataclass(frozen=True)
class Inventory:
    """What a dataset holds, counted while decoding every image."""

    location: Path | None
    class_names: tuple[str, ...]
    image_shape: tuple[int, int, int]
    train: NDArray[np.int64]
    """Training images of each class."""
    test: NDArray[np.int64]
    """Test images of each class."""


def take_inventory(
    source: Source, root: Path | None, options: DecodingOptions, progress: Progress | None = None
) -> Inventory:
    """Decode everything and count it; whatever is wrong with a file is raised as one line."""
    tree = source.files(root)
    if tree is not None and tree.location.is_file():
        for archive in ARCHIVES.get(source.name, ()):
            if archive.name == tree.location.name and not digest_is_right(archive, tree.location):
                raise SparclError(
                    f"{tree.location} is damaged: its SHA-256 is not the published one. Delete it and get it again."
                )
    contents = source.read(tree, options)
    counts = []
    for split, what in ((contents.train, "checking train images"), (contents.test, "checking test images")):
        count = np.zeros(len(contents.class_names), dtype=np.int64)
        for _, labels in checked_blocks(contents, split, what, progress):
            count += np.bincount(labels, minlength=len(count))
        counts.append(count)
    location = tree.location if tree else None
    return Inventory(location, contents.class_names, contents.image_shape, counts[0], counts[1])
