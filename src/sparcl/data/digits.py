"""The digits that come with the package: 1,797 real handwritten digits, 8x8 pixels, for demos and tests.

Source: E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository, 1998,
https://doi.org/10.24432/C50P49, licensed under CC BY 4.0. These are the images of its test set. The file digits.npz
holds them as `images` [1797, 8, 8] and `labels` [1797], in the original order; the original grey levels 0..16 were
changed to round(level * 255 / 16). The fifth, tenth, fifteenth ... image of each digit is a test image.
"""

from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sparcl.data.source import Block, Contents, DecodingOptions, Source, Split
from sparcl.data.tree import Tree

TEST_EVERY = 5


class Digits(Source):
    name = "digits"
    title = "Digits"
    description = "1,797 handwritten digits of 8x8 pixels, part of the package (UCI)"
    classes = 10
    image_size = 8
    classes_per_task = 2
    flip = False
    padding = 1
    mean = (0.3052,)
    std = (0.3760,)

    def open(self, root: Path | None) -> Tree | None:
        return None

    def read(self, tree: Tree | None, options: DecodingOptions) -> Contents:
        with resources.files("sparcl.data").joinpath("digits.npz").open("rb") as file:
            stored = np.load(file, allow_pickle=False)
            images, labels = stored["images"][:, None], stored["labels"].astype(np.int64)
        test = is_test_image(labels)
        return Contents(
            class_names=tuple(str(digit) for digit in range(10)),
            image_shape=(1, 8, 8),
            train=Split(int((~test).sum()), _one_block(images[~test], labels[~test])),
            test=Split(int(test.sum()), _one_block(images[test], labels[test])),
        )


class PermutedDigits(Digits):
    name = "permuted-digits"
    title = "Permuted digits"
    description = "Domain-IL: the digits, their pixels permuted another way in each task"
    classes_per_task = 10
    domains = "permuted"


class RotatedDigits(Digits):
    name = "rotated-digits"
    title = "Rotated digits"
    description = "Domain-IL: the digits, turned further in each task"
    classes_per_task = 10
    domains = "rotated"


def is_test_image(labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Every fifth image of each class, in the order in which they are stored."""
    test = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        test[np.flatnonzero(labels == label)[TEST_EVERY - 1 :: TEST_EVERY]] = True
    return test


def _one_block(images: NDArray[np.uint8], labels: NDArray[np.int64]) -> Iterator[Block]:
    yield images, labels
