"""The tasks of a run that is only planned: what it costs can be known before the images are there."""

import numpy as np

from sparcl.data import DATASETS, Progress, Stream, load_stream
from sparcl.data.load import cut_stream
from sparcl.data.store import Store
from sparcl.learning.settings import Settings

# Known sizes, so that a plan can be made on a machine without the images.
TRAINING_IMAGES_PER_CLASS = {"cifar10": 5000, "tiny_imagenet": 500}
TEST_IMAGES_PER_CLASS = {"cifar10": 1000, "tiny_imagenet": 50}


def stream_without_pictures(chosen: Settings, progress: Progress | None = None) -> Stream:
    """The tasks and shapes of a known data set, which need not be there; of another one the data is read."""
    options = dict(vars(chosen.data))
    if chosen.dataset not in TRAINING_IMAGES_PER_CLASS:
        return load_stream(chosen.dataset, order_seed=chosen.seed, progress=progress, **options)
    source = DATASETS[chosen.dataset]
    assert source.classes is not None and source.image_size is not None
    # A store with labels but without pictures: cutting it into tasks touches no pixels.
    classes = np.arange(source.classes)
    shape = (3, source.image_size, source.image_size)
    pictures = np.empty((0, *shape), np.uint8)
    store = Store(
        class_names=tuple(map(str, classes)),
        image_shape=shape,
        mean=source.mean or (0.0,) * 3,
        std=source.std or (1.0,) * 3,
        train_images=pictures,
        train_labels=np.repeat(classes, TRAINING_IMAGES_PER_CLASS[chosen.dataset]),
        test_images=pictures,
        test_labels=np.repeat(classes, TEST_IMAGES_PER_CLASS[chosen.dataset]),
    )
    chosen_cut = ("domains", "tasks", "classes_per_task", "validation", "images_per_task")
    return cut_stream(source, store, **{name: options[name] for name in chosen_cut})
