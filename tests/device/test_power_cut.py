"""Whatever happens during a learning session: the learner opens, as it was before or with what was learned."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from disk import WatchedDisk, full, write_tree
from small import small, state

from sparcl.device.learner import Learner
from sparcl.errors import SparclError

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory, photos):
    """A learner that knows two classes, and the states before and after it has learned a third."""
    directory = tmp_path_factory.mktemp("learner") / "shop"
    learner = small(directory, checkpoint={"minutes": 0})
    learner.learn(photos.of("0", "1"))
    learner.learn(photos.of("3"))
    before = state(learner)
    other = Learner.open(shutil.copytree(directory, directory.with_name("after")))
    other.learn(photos.of("2"))
    return directory, before, state(other)


def test_a_power_cut_before_any_file_operation_leaves_the_state_before_or_after(
    tmp_path, monkeypatch, photos, prepared
):
    """Cut before each operation, with everything written so far on the disk, and with only what was synced."""
    original, before, after = prepared
    directory = shutil.copytree(original, tmp_path / "shop")
    disk = WatchedDisk(directory, monkeypatch)
    images, synced = [], []

    def keep(name):
        synced.append(disk.what_survives())
        images.extend((disk.what_is_there(), synced[-1]))

    disk.before_each = keep
    Learner.open(directory).learn(photos.of("2"))
    images += [disk.what_is_there(), disk.what_survives()]
    disk.close()
    monkeypatch.undo()
    assert disk.operations > 50
    # Also with only what was synced a cut in the middle leaves something to continue from.
    assert any("learning/task.safetensors" in image and "learning/checkpoints/" in str(image) for image in synced)
    assert state(Learner.open(directory)) == after
    different = [image for place, image in enumerate(images) if image not in images[:place]]
    states, resumable = [], []
    for place, image in enumerate(different):
        learner = Learner.open(write_tree(tmp_path / str(place), image))
        states.append(state(learner))
        learner.status()
        if learner.pending.exists() and states[-1] == before:
            resumable.append(learner)
    assert all(found in (before, after) for found in states)
    assert before in states and after in states
    assert states[-1] == after  # what was learned when the command ended is on the disk
    assert len(resumable) > 10
    for learner in resumable[:: len(resumable) // 5]:
        learner.resume()
        assert state(learner) == after


def test_whichever_file_operation_fails_nothing_is_lost(tmp_path, monkeypatch, photos, prepared):
    original, before, after = prepared
    number, failed = 0, 0
    while True:
        number += 4 if number > 25 else 1  # every operation of the first steps, then some
        directory = shutil.copytree(original, tmp_path / str(number))
        with monkeypatch.context() as patch:
            disk = WatchedDisk(directory, patch)
            disk.before_each = lambda name, disk=disk, number=number: full(name) if disk.operations == number else None
            try:
                Learner.open(directory).learn(photos.of("2"))
            except SparclError as error:
                assert "disk is full" in str(error) and "\n" not in str(error)
                failed += 1
            disk.close()
        assert state(Learner.open(directory)) in (before, after)
        if disk.operations < number:
            break
    assert failed > 10


def test_killed_at_random_moments_and_resumed():
    command = [sys.executable, "-m", "benchmarks.power_cut", "--cuts", "8"]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd=ROOT)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.startswith("8 cuts")


def test_killed_between_changes_of_files_nothing_stays_and_undo_does_what_it_says():
    command = [sys.executable, "-m", "benchmarks.kill_points", "--every", "23"]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd=ROOT)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert finished.stdout.count("killed before") == 7
