"""Domain-incremental streams: all classes in every task, each in a domain of its own."""

import numpy as np
import pytest

from sparcl.data import domains, load_stream
from sparcl.data.domains import permuted, rotated
from sparcl.errors import SparclError


@pytest.mark.parametrize("name", ["permuted-digits", "rotated-digits"])
def test_every_task_has_all_classes_and_the_same_samples_in_another_domain(name):
    stream, plain = load_stream(name), load_stream("digits", classes_per_task=10)
    assert len(stream.tasks) == len(stream.domains) == 5
    for task in stream.tasks:
        assert task.classes == range(10)
        np.testing.assert_array_equal(task.train.labels, plain.tasks[0].train.labels)
        np.testing.assert_array_equal(task.test.labels, plain.tasks[0].test.labels)
    looks = [task.train.originals(slice(0, 20)) for task in stream.tasks]
    np.testing.assert_array_equal(looks[0], plain.tasks[0].train.originals(slice(0, 20)))
    for first in range(5):
        for second in range(first):
            assert not np.array_equal(looks[first], looks[second])
    assert stream.fingerprint == load_stream(name).fingerprint  # the same in every run
    assert not stream.augmentation.flip and stream.augmentation.padding == 0


def test_a_permutation_moves_every_pixel_of_all_images_alike():
    images = np.random.default_rng(0).integers(0, 256, (6, 2, 5, 5), np.uint8)
    moved = permuted(images, task=3)
    flat, moved_flat = images.reshape(12, 25), moved.reshape(12, 25)
    np.testing.assert_array_equal(np.sort(flat), np.sort(moved_flat))
    columns = {tuple(column) for column in flat.T}
    assert {tuple(column) for column in moved_flat.T} == columns  # whole columns have moved


def test_a_quarter_turn_is_exact_and_a_small_one_keeps_the_centre():
    images = np.random.default_rng(0).integers(0, 256, (3, 2, 9, 9), np.uint8)
    np.testing.assert_array_equal(rotated(images, 90), np.rot90(images, axes=(2, 3)))
    assert (rotated(images, 20)[:, :, 4, 4].astype(int) - images[:, :, 4, 4] < 2).all()


def test_any_data_set_can_be_cut_into_domains():
    stream = load_stream("digits", domains="rotated", tasks=3, images_per_task=40, validation=0.1)
    assert [len(task.train) for task in stream.tasks] == [40, 40, 40]
    assert stream.domains == ("as they are", "rotated by 60°", "rotated by 120°")
    assert all(len(task.validation) > 0 for task in stream.tasks)
    with pytest.raises(SparclError, match="every task has all classes"):
        load_stream("digits", domains="rotated", classes_per_task=2)
    with pytest.raises(SparclError, match="from 1 to 100"):
        load_stream("permuted-digits", tasks=101)


@pytest.mark.parametrize("name", ["permuted-digits", "rotated-digits"])
def test_progress_is_told_and_changes_nothing(name, monkeypatch):
    whole = load_stream(name)
    monkeypatch.setattr(domains, "AT_ONCE", 100)
    told = []
    in_parts = load_stream(name, progress=lambda what, done, total: told.append((what, done, total)))
    assert in_parts.fingerprint == whole.fingerprint
    for task, same in zip(in_parts.tasks, whole.tasks, strict=True):
        np.testing.assert_array_equal(task.train.originals(slice(None)), same.train.originals(slice(None)))
    made = [(done, total) for what, done, total in told if what == "making domains"]
    count = 5 * len(whole.tasks[0].train)
    assert (count, count) in made and (100, count) in made
