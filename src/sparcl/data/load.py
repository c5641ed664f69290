"""From the name of a dataset to a stream of tasks."""

from pathlib import Path
from typing import Any, Literal

from sparcl.data.augmentation import Augmentation
from sparcl.data.cache import load_store
from sparcl.data.cifar10 import Cifar10
from sparcl.data.digits import Digits, PermutedDigits, RotatedDigits
from sparcl.data.domains import cut_into_domains
from sparcl.data.folder import ImageFolder
from sparcl.data.source import DecodingOptions, Domains, Progress, Source
from sparcl.data.store import Store
from sparcl.data.stream import Stream
from sparcl.data.tasks import Cut, cut_into_tasks
from sparcl.data.tiny_imagenet import TinyImagenet
from sparcl.errors import SparclError
from sparcl.hints import did_you_mean

SOURCES = (Digits(), Cifar10(), TinyImagenet(), ImageFolder(), PermutedDigits(), RotatedDigits())
DATASETS: dict[str, Source] = {source.name: source for source in SOURCES}
"""Every dataset by the name a person types. A new source is added here."""


def load_stream(
    dataset: str,
    *,
    root: Path | None = None,
    tasks: int | None = None,
    classes_per_task: int | None = None,
    class_order: Literal["natural", "shuffled"] = "natural",
    order_seed: int = 0,
    validation: float = 0.0,
    domains: Domains | None = None,
    images_per_task: int | None = None,
    image_size: int | None = None,
    test_share: float = 0.2,
    progress: Progress | None = None,
) -> Stream:
    """Load a dataset as a stream of tasks, decoding it into the cache the first time.

    root: where the dataset's files are (a folder or an archive); default: <data directory>/<dataset>.
    tasks: keep only the first so many tasks; with domains: so many there are.
    classes_per_task: default: what is usual for the dataset.
    class_order, order_seed: take the classes as the dataset has them, or shuffled with a seed.
    validation: the share of each class's training images to set aside, always the same ones; 0 sets none aside.
    domains: every task has all classes, in a domain of its own (sparcl.data.domains); default: as the dataset has it.
    images_per_task: train on exactly so many images of each task: the first of each class in the order in which they
        are stored, equally many of each class, after validation images have been set aside.
    image_size, test_share: only for image folders; see sparcl.data.folder.
    progress: called as progress(what, done, total) while images are decoded.
    """
    source = find_source(dataset)
    options = decoding_options(source, image_size, test_share)
    store = load_store(source, root, options, progress)
    return cut_stream(
        source,
        store,
        domains=domains,
        tasks=tasks,
        classes_per_task=classes_per_task,
        class_order=class_order,
        order_seed=order_seed,
        validation=validation,
        images_per_task=images_per_task,
        progress=progress,
    )


def cut_stream(
    source: Source,
    store: Store,
    *,
    classes_per_task: int | None,
    domains: Domains | None,
    progress: Progress | None = None,
    **choices: Any,
) -> Stream:
    """A stream of tasks with new classes, or of domains; see load_stream for what each choice means."""
    domains = domains or source.domains
    if domains is not None and classes_per_task is not None:
        raise SparclError("classes_per_task cannot be chosen with domains: there every task has all classes.")
    cut = Cut(
        classes_per_task=min(source.classes_per_task, len(store.class_names))
        if classes_per_task is None
        else classes_per_task,
        **choices,
    )
    augmentation = augmentation_of(source, store)
    if domains is not None:
        return cut_into_domains(source.name, store, cut, domains, augmentation, progress)
    return cut_into_tasks(source.name, store, cut, augmentation)


def find_source(dataset: str) -> Source:
    if dataset not in DATASETS:
        raise SparclError(f"There is no dataset {dataset!r}{did_you_mean(dataset, list(DATASETS))}")
    return DATASETS[dataset]


def decoding_options(source: Source, image_size: int | None, test_share: float) -> DecodingOptions:
    if image_size is not None and source.image_size is not None:
        raise SparclError(
            f"image_size cannot be chosen for {source.name}, whose images all have the same size. Leave it out."
        )
    if image_size is not None and not 4 <= image_size <= 1024:
        raise SparclError(f"image_size is {image_size}; choose from 4 to 1024 pixels.")
    if not 0 < test_share < 1:
        raise SparclError(f"test_share is {test_share}; choose a share between 0 and 1.")
    return DecodingOptions(image_size, test_share)


def augmentation_of(source: Source, store: Store) -> Augmentation:
    padding = store.image_shape[1] // 8 if source.padding is None else source.padding
    return Augmentation(padding, source.flip, source.mean or store.mean, source.std or store.std)
