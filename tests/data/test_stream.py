"""Cutting a store into tasks: what must hold for every dataset and every choice."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sparcl.data import Augmentation, Samples, load_stream
from sparcl.data.store import Store
from sparcl.data.tasks import Cut, cut_into_tasks
from sparcl.errors import SparclError

PLAIN = Augmentation(0, False, (0.5,), (0.5,))


def make_store(train_counts: list[int], test_counts: list[int], seed: int = 0) -> Store:
    """A store whose classes have the given numbers of images, in a random order."""
    generator = np.random.default_rng(seed)
    splits: list[Any] = []
    for counts in (train_counts, test_counts):
        labels = generator.permutation(np.repeat(np.arange(len(counts)), counts)).astype(np.int64)
        splits += [np.zeros((len(labels), 1, 2, 2), dtype=np.uint8), labels]
    names = tuple(f"class {i}" for i in range(len(train_counts)))
    return Store(names, (1, 2, 2), (0.5,), (0.5,), *splits)


counts_of_classes = st.lists(st.tuples(st.integers(2, 9), st.integers(1, 4)), min_size=1, max_size=9)


@given(
    counts=counts_of_classes,
    classes_per_task=st.integers(1, 9),
    order=st.sampled_from(["natural", "shuffled"]),
    order_seed=st.integers(0, 5),
    validation=st.sampled_from([0.0, 0.01, 0.3, 0.99]),
    seed=st.integers(0, 5),
)
@settings(deadline=None, max_examples=60)
def test_tasks_partition_the_store(
    counts: list[tuple[int, int]], classes_per_task: int, order: Any, order_seed: int, validation: float, seed: int
) -> None:
    assume(classes_per_task <= len(counts))
    store = make_store([c[0] for c in counts], [c[1] for c in counts], seed)
    cut = Cut(classes_per_task, class_order=order, order_seed=order_seed, validation=validation)
    stream = cut_into_tasks("made", store, cut, PLAIN)

    # The order is a permutation of the classes; tasks hold contiguous labels, and only the last may be smaller.
    assert sorted(stream.class_names) == sorted(store.class_names)
    assert [label for task in stream.tasks for label in task.classes] == list(range(stream.classes))
    assert all(len(task.classes) == classes_per_task for task in stream.tasks[:-1])

    # Every image is in exactly one task, and carries the label of its own class.
    train = np.concatenate([task.train.positions for task in stream.tasks])
    aside = np.concatenate([task.validation.positions for task in stream.tasks if task.validation] or [train[:0]])
    test = np.concatenate([task.test.positions for task in stream.tasks])
    assert sorted([*train, *aside]) == list(range(len(store.train_labels)))
    assert sorted(test) == list(range(len(store.test_labels)))
    for task in stream.tasks:
        parts = [(task.train, store.train_labels), (task.test, store.test_labels)]
        parts += [(task.validation, store.train_labels)] if task.validation else []
        for samples, labels in parts:
            assert set(samples.labels) == set(task.classes)
            named = [store.class_names[label] for label in labels[samples.positions]]
            assert [stream.class_names[label] for label in samples.labels] == named
        assert (task.validation is None) == (validation == 0)


@given(images=st.integers(1, 40), classes_per_task=st.integers(1, 4), seed=st.integers(0, 3))
@settings(deadline=None, max_examples=40)
def test_images_per_task_keeps_exactly_the_first_of_each_class(images: int, classes_per_task: int, seed: int) -> None:
    assume(classes_per_task <= images <= 9 * classes_per_task)
    store = make_store([9] * 4, [1] * 4, seed)
    assume(4 % classes_per_task == 0)
    cut = Cut(classes_per_task, images_per_task=images)
    for task in cut_into_tasks("made", store, cut, PLAIN).tasks:
        assert len(task.train) == images
        numbers = [int((task.train.labels == label).sum()) for label in task.classes]
        assert max(numbers) - min(numbers) <= 1
        for label, number in zip(task.classes, numbers, strict=True):
            first = np.flatnonzero(store.train_labels == label)[:number]
            assert (task.train.positions[task.train.labels == label] == first).all()


def test_validation_images_do_not_depend_on_the_class_order() -> None:
    store = make_store([10] * 6, [1] * 6)
    kept = [
        np.sort(
            np.concatenate(
                [t.validation.positions for t in cut_into_tasks("m", store, cut, PLAIN).tasks if t.validation]
            )
        )
        for cut in (Cut(2, validation=0.3), Cut(3, validation=0.3, class_order="shuffled", order_seed=4))
    ]
    assert (kept[0] == kept[1]).all()


def test_tasks_keeps_the_first() -> None:
    whole, part = load_stream("digits"), load_stream("digits", tasks=2)
    assert part.class_names == whole.class_names[:4]
    assert part.classes == 4
    assert [task.classes for task in part.tasks] == [range(2), range(2, 4)]
    assert (part.tasks[1].train.positions == whole.tasks[1].train.positions).all()


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"tasks": 6}, "tasks is 6; choose from 1 to 5"),
        ({"tasks": 0}, "tasks is 0"),
        ({"classes_per_task": 11}, "classes_per_task is 11; choose from 1 to 10"),
        ({"classes_per_task": 0}, "classes_per_task is 0"),
        ({"class_order": "random"}, "class_order is 'random'"),
        ({"order_seed": -1}, "order_seed is -1"),
        ({"validation": 1.0}, "validation is 1.0"),
        ({"validation": float("nan")}, "validation is nan"),
        ({"images_per_task": 1}, "images_per_task is 1"),
        ({"images_per_task": 100_000}, "Choose fewer"),
        ({"image_size": 16}, "image_size cannot be chosen for digits"),
        ({"test_share": 1.5}, "test_share is 1.5"),
    ],
)
def test_choices_that_cannot_be(choice: dict[str, Any], message: str) -> None:
    with pytest.raises(SparclError, match=message) as caught:
        load_stream("digits", **choice)
    assert "\n" not in str(caught.value)


def test_unknown_dataset() -> None:
    with pytest.raises(SparclError, match="no dataset 'mnist'"):
        load_stream("mnist")


def test_classes_too_small() -> None:
    with pytest.raises(SparclError, match="'class 1' of made has no test images"):
        cut_into_tasks("made", make_store([2, 2], [1, 0]), Cut(1), PLAIN)
    with pytest.raises(SparclError, match="'class 0' of made has no training images"):
        cut_into_tasks("made", make_store([0, 2], [1, 1]), Cut(1), PLAIN)
    with pytest.raises(SparclError, match="'class 1' has one training image"):
        cut_into_tasks("made", make_store([2, 1], [1, 1]), Cut(1, validation=0.5), PLAIN)


def test_select_and_originals() -> None:
    images = np.arange(5 * 4, dtype=np.uint8).reshape(5, 1, 2, 2)
    samples = Samples(images, np.array([4, 2, 0]), np.array([1, 0, 1]))
    chosen = samples.select([2, 0])
    assert len(chosen) == 2
    assert chosen.positions.tolist() == [0, 4]
    assert chosen.labels.tolist() == [1, 1]
    assert len(samples.select([])) == 0
    assert len(samples.select(samples.labels == 1)) == 2
    originals = samples.originals([1, 0])
    assert (originals == images[[2, 4]]).all()
    originals[:] = 0
    assert images[4].any()
