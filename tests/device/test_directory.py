"""A learner works in the directory that it holds, whatever happens to its name, and leaves nothing behind."""

import json
import shutil
import signal
import subprocess
import sys

import pytest
from small import small, sparcl, state

from sparcl.device import status
from sparcl.device.learner import Learner
from sparcl.device.pending import PendingDirectory
from sparcl.device.states import States
from sparcl.errors import SparclError
from sparcl.learning.loop import Stopped

KILLED_WHILE_READING = """
import os, signal, sys
from sparcl.device.learner import Learner
def progress(what, done, total):
    os.kill(os.getpid(), signal.SIGKILL)
Learner.open(sys.argv[1]).learn({"2": sys.argv[2]}, progress=progress)
"""


class AtTheStart:
    """Does something when learning has begun."""

    def __init__(self, do) -> None:
        self._do = do

    def noted(self, *_) -> None: ...
    def started(self, *_) -> None:
        self._do()

    def stepped(self, *_) -> None: ...


def files_of(directory):
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


@pytest.fixture
def learner(tmp_path, photos):
    learner = small(tmp_path / "shop")
    learner.learn(photos.of("0", "1"))
    return learner


@pytest.fixture
def other(tmp_path, photos):
    other = small(tmp_path / "other")
    other.learn(photos.of("5", "6"))
    return other


def test_another_learner_in_its_place_is_not_touched(tmp_path, photos, learner, other):
    before, shop, away = state(other), tmp_path / "shop", tmp_path / "away"

    def swap():
        shop.rename(away)
        other.directory.rename(shop)

    with pytest.raises(SparclError, match=r"renamed or replaced while it learned.*/away") as caught:
        learner.learn(photos.of("2"), listener=AtTheStart(swap))
    assert "\n" not in str(caught.value)
    assert state(Learner.open(shop)) == before and files_of(shop) == ["settings.json", "states/0000000001.safetensors"]
    assert [entry["name"] for entry in Learner.open(away).status()["classes"]] == ["0", "1", "2"]


def test_a_renamed_learner_takes_its_work_with_it(tmp_path, photos, learner):
    away = tmp_path / "away"
    with pytest.raises(SparclError, match="renamed or replaced"):
        learner.learn(photos.of("2"), listener=AtTheStart(lambda: learner.directory.rename(away)))
    assert not learner.directory.exists()
    assert Learner.open(away).states.newest() == 2 and not Learner.open(away).pending.begun()


def test_a_renamed_learner_that_is_stopped_says_where_to_continue(tmp_path, photos, learner):
    away = tmp_path / "away from here"

    def rename_and_stop():
        learner.directory.rename(away)
        learner.request_stop()

    with pytest.raises(SparclError, match="nothing is lost") as caught:
        learner.learn(photos.of("2"), listener=AtTheStart(rename_and_stop))
    assert f"it is {away} now, and can be resumed there" in str(caught.value)
    renamed = Learner.open(away)
    assert renamed.status()["resumable"]
    renamed.resume()
    assert renamed.states.newest() == 2


@pytest.mark.parametrize("minutes", [0, 1000])
def test_nothing_is_written_once_it_is_removed(tmp_path, photos, minutes):
    """Whether the first to notice is a checkpoint or the new state."""
    learner = small(tmp_path / "shop", checkpoint={"minutes": minutes})
    with pytest.raises(SparclError, match="moved or removed") as caught:
        learner.learn(photos.of("0", "1"), listener=AtTheStart(lambda: shutil.rmtree(learner.directory)))
    assert "\n" not in str(caught.value) and not learner.directory.exists()


def test_a_learner_that_became_another_one_is_not_changed(tmp_path, photos, learner):
    shutil.rmtree(learner.directory)
    small(learner.directory, width=8).learn(photos.of("5", "6"))
    before = files_of(learner.directory)
    for change in (lambda: learner.learn(photos.of("2")), learner.undo):
        with pytest.raises(SparclError, match="is another learner"):
            change()
    assert files_of(learner.directory) == before


def test_killed_while_it_reads_pictures_the_session_before_is_safe(tmp_path, photos, learner):
    before, pictures = state(learner), photos.folder / "2"
    command = [sys.executable, "-c", KILLED_WHILE_READING, learner.directory, pictures]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    found = json.loads(sparcl("status", learner.directory, "--json").stdout)
    assert found["interrupted"] and not found["resumable"] and not found["learning"]
    assert "interrupted while its pictures were being read" in sparcl("status", learner.directory).stdout
    with pytest.raises(SparclError, match="give its folders again"):
        learner.resume()
    assert "Dropped the learning session that was interrupted while its pictures were being read" in learner.undo()
    assert state(learner) == before and not learner.status()["interrupted"]
    assert files_of(learner.directory) == ["settings.json", "states/0000000001.safetensors"]
    # And it can be given again without dropping it first.
    subprocess.run(command, check=False)
    with pytest.warns(UserWarning, match="Dropped a learning session"):
        learner.learn({"2": pictures})
    assert learner.states.newest() == 2 and learner.undo().startswith("Undone learning session 2")


def test_temporary_files_of_any_kind_are_removed(photos, learner):
    """Those of safetensors, with which version 0.1.0 wrote, had names of their own and stayed for good."""
    learner.directory.joinpath("learning", "checkpoints").mkdir(parents=True)
    for name in ("states/.tmpAb3dEf", "states/0000000002.safetensors.partial", "settings.json.partial"):
        (learner.directory / name).write_bytes(bytes(1000))
    (learner.directory / "learning" / "images.bin").write_bytes(bytes(1000))
    (learner.directory / "learning" / "checkpoints" / ".tmpZZZZZZ").write_bytes(bytes(1000))
    learner.undo()
    assert files_of(learner.directory) == ["settings.json", "states/0000000001.safetensors"]
    assert sorted(path.name for path in learner.directory.iterdir()) == ["settings.json", "states"]


def test_status_sees_one_state_while_others_learn_and_undo(monkeypatch, photos, learner):
    """The newest state vanishes between the moment it is found and the moment it is read."""
    learner.learn(photos.of("2"))
    undone = []

    def base(*arguments):
        if not undone:
            undone.append(Learner.open(learner.directory).undo())
        return original(*arguments)

    original = status.BaseState
    monkeypatch.setattr(status, "BaseState", base)
    found = learner.status()
    assert undone and found["learns"] == 1 and len(found["classes"]) == 2


def test_a_session_that_ends_while_status_looks_was_not_interrupted(monkeypatch, photos, learner):
    learner.directory.joinpath("learning").mkdir()

    def is_locked(path):
        learner.pending.clear()
        return False

    monkeypatch.setattr(status, "is_locked", is_locked)
    assert not learner.status()["interrupted"]


def test_settings_that_somebody_changed_are_refused(learner):
    path = learner.directory / "settings.json"
    path.write_text(path.read_text().replace('"learning_rate": 0.1', '"learning_rate": 0.2'))
    with pytest.raises(SparclError, match="has changed since it was written"):
        Learner.open(learner.directory)


def test_a_session_reads_its_state_and_its_task_once(monkeypatch, photos, learner):
    read = []

    def counting(name, original):
        def wrapped(self, *arguments):
            read.append(name)
            return original(self, *arguments)

        return wrapped

    monkeypatch.setattr(States, "open", counting("state", States.open))
    monkeypatch.setattr(PendingDirectory, "read_task", counting("task", PendingDirectory.read_task))
    learner.learn(photos.of("2"))
    assert read == ["state"]  # the task is what was just written
    read.clear()

    class StopAtOnce:
        def noted(self, *_): ...
        def started(self, *_): ...

        def stepped(self, *_):
            learner.request_stop()

    with pytest.raises(Stopped):
        learner.learn(photos.of("3"), listener=StopAtOnce())
    read.clear()
    learner.resume()
    assert sorted(read) == ["state", "task"]
