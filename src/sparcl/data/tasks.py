"""Cutting a store of images into a stream of tasks.

The classes are put in order, natural or shuffled, and dealt out to the tasks; if they do not divide evenly the last
task is smaller. A class's label is its place in that order. Nothing here touches pixels.
"""

import zlib
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sparcl.data.augmentation import Augmentation
from sparcl.data.shares import set_aside
from sparcl.data.store import Store
from sparcl.data.stream import Samples, Stream, Task
from sparcl.errors import SparclError

VALIDATION_SEED = 2023
"""The validation images of a class are the same in every run and for every class order."""


@dataclass(frozen=True)
class Cut:
    """How to cut: see load_stream for what each choice means."""

    classes_per_task: int
    tasks: int | None = None
    class_order: Literal["natural", "shuffled"] = "natural"
    order_seed: int = 0
    validation: float = 0.0
    images_per_task: int | None = None


def cut_into_tasks(name: str, store: Store, cut: Cut, augmentation: Augmentation) -> Stream:
    """Cut a store into a stream, or say in one line why it cannot be cut this way."""
    _check(store, cut)
    groups = _class_groups(len(store.class_names), cut)
    order = np.concatenate(groups)
    train_of_class = _positions_by_class(store.train_labels, len(store.class_names))
    test_of_class = _positions_by_class(store.test_labels, len(store.class_names))
    label_of_class = np.full(len(store.class_names), -1, dtype=np.int64)
    label_of_class[order] = np.arange(len(order))

    def samples(images: NDArray[np.uint8], labels: NDArray[np.int64], parts: list[NDArray[np.int64]]) -> Samples:
        positions = np.sort(np.concatenate(parts))
        return Samples(images, positions, label_of_class[labels[positions]])

    tasks, first = [], 0
    for index, group in enumerate(groups):
        train, validation = [train_of_class[c] for c in group], []
        for c in group:
            if not len(train_of_class[c]) or not len(test_of_class[c]):
                kind = "test" if len(train_of_class[c]) else "training"
                raise SparclError(f"The class {store.class_names[c]!r} of {name} has no {kind} images. Add some.")
        if cut.validation > 0:
            parts = [_validation_split(train_of_class[c], cut.validation, store.class_names[c]) for c in group]
            train, validation = [kept for kept, _ in parts], [aside for _, aside in parts]
        if cut.images_per_task is not None:
            train = _first_of_each(train, cut.images_per_task, index, [store.class_names[c] for c in group])
        tasks.append(
            Task(
                index=index,
                classes=range(first, first + len(group)),
                train=samples(store.train_images, store.train_labels, train),
                test=samples(store.test_images, store.test_labels, [test_of_class[c] for c in group]),
                validation=samples(store.train_images, store.train_labels, validation) if validation else None,
            )
        )
        first += len(group)
    names = tuple(store.class_names[c] for c in order)
    return Stream(name, names, store.image_shape, tuple(tasks), augmentation)


def _check(store: Store, cut: Cut) -> None:
    classes = len(store.class_names)
    if not 1 <= cut.classes_per_task <= classes:
        raise SparclError(
            f"classes_per_task is {cut.classes_per_task}; choose from 1 to {classes}, the classes there are."
        )
    if cut.class_order not in ("natural", "shuffled"):
        raise SparclError(f"class_order is {cut.class_order!r}; choose 'natural' or 'shuffled'.")
    if cut.order_seed < 0:
        raise SparclError(f"order_seed is {cut.order_seed}; choose 0 or more.")
    if not 0 <= cut.validation < 1:
        raise SparclError(f"validation is {cut.validation}; choose a share from 0 up to but not including 1.")


def _class_groups(classes: int, cut: Cut) -> list[NDArray[np.int64]]:
    """The classes of each task, as places in the store's class_names."""
    order = np.arange(classes)
    if cut.class_order == "shuffled":
        order = np.random.default_rng(cut.order_seed).permutation(classes)
    groups = [order[first : first + cut.classes_per_task] for first in range(0, classes, cut.classes_per_task)]
    if cut.tasks is None:
        return groups
    if not 1 <= cut.tasks <= len(groups):
        raise SparclError(
            f"tasks is {cut.tasks}; choose from 1 to {len(groups)}, "
            f"which is what {classes} classes with {cut.classes_per_task} a task give."
        )
    return groups[: cut.tasks]


def _positions_by_class(labels: NDArray[np.int64], classes: int) -> list[NDArray[np.int64]]:
    by_class = np.argsort(labels, kind="stable")
    ends = np.cumsum(np.bincount(labels, minlength=classes))
    return np.split(by_class, ends[:-1])


def _validation_split(
    positions: NDArray[np.int64], share: float, class_name: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split one class's training images into those kept and those set aside for validation."""
    if len(positions) < 2:
        raise SparclError(f"The class {class_name!r} has one training image, too few to set one aside for validation.")
    return set_aside(positions, share, [VALIDATION_SEED, zlib.crc32(class_name.encode())])


def _first_of_each(
    train: list[NDArray[np.int64]], images: int, task: int, class_names: list[str]
) -> list[NDArray[np.int64]]:
    """The first images of each class, equally many of each; earlier classes take what does not divide evenly."""
    if images < len(train):
        raise SparclError(
            f"images_per_task is {images}, but task {task + 1} has {len(train)} classes; choose at least that."
        )
    shares = [images // len(train) + (place < images % len(train)) for place in range(len(train))]
    for positions, share, name in zip(train, shares, class_names, strict=True):
        if len(positions) < share:
            raise SparclError(
                f"images_per_task is {images}, which takes {share} images of the class {name!r} in task {task + 1}, "
                f"but it has {len(positions)} for training. Choose fewer."
            )
    return [np.sort(positions)[:share] for positions, share in zip(train, shares, strict=True)]
