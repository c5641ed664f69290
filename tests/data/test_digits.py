"""The digits that come with the package."""

import numpy as np

from sparcl.data import load_stream


def test_digits_are_all_there() -> None:
    stream = load_stream("digits")
    assert stream.class_names == tuple("0123456789")
    assert stream.image_shape == (1, 8, 8)
    assert [task.classes for task in stream.tasks] == [range(i, i + 2) for i in range(0, 10, 2)]
    assert sum(len(task.train) for task in stream.tasks) == 1442
    assert sum(len(task.test) for task in stream.tasks) == 355
    assert stream.augmentation.padding == 1
    assert not stream.augmentation.flip


def test_normalisation_fits_the_training_images() -> None:
    stream = load_stream("digits")
    images = stream.tasks[0].train.images
    normalised = stream.augmentation.test(images, np.arange(len(images)))
    assert abs(normalised.mean()) < 1e-3
    assert abs(normalised.std() - 1) < 1e-3


def test_images_look_like_their_labels() -> None:
    """A nearest-mean classifier already gets most digits right; with mixed-up labels it could not."""
    stream = load_stream("digits", classes_per_task=10)
    train, test = stream.tasks[0].train, stream.tasks[0].test
    images = train.originals(slice(None)).reshape(len(train), -1).astype(float)
    means = np.stack([images[train.labels == label].mean(axis=0) for label in range(10)])
    distances = ((test.originals(slice(None)).reshape(len(test), 1, -1) - means) ** 2).sum(axis=2)
    assert (distances.argmin(axis=1) == test.labels).mean() > 0.85


def test_nothing_is_written(tmp_path: object) -> None:
    load_stream("digits")
    assert not list(tmp_path.iterdir())  # type: ignore[attr-defined]
