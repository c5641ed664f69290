"""Learners that older versions have made still open, predict, continue and go back.

`fixtures/learner-0.1.0` was made by version 0.1.0: it knows 0, 1 and 2, learned in two sessions, and was interrupted
after three steps of a third one, which was to learn 3.
"""

import json
import shutil
from pathlib import Path

import pytest

from sparcl.device.learner import Learner

FIXTURE = Path(__file__).parent / "fixtures" / "learner-0.1.0"


@pytest.fixture
def old(tmp_path):
    assert "seal" not in json.loads((FIXTURE / "settings.json").read_text())
    return Learner.open(shutil.copytree(FIXTURE, tmp_path / "shop"))


def names(learner):
    return [entry["name"] for entry in learner.status()["classes"]]


def test_it_opens_and_predicts(old, photos):
    status = old.status()
    assert status["interrupted"] and status["resumable"] and status["learns"] == 2
    assert names(old) == ["0", "1", "2"]
    assert [set(answer.classes) for answer in old.predict(photos.folder / "0")] == 24 * [{"0", "1", "2"}]


def test_its_interrupted_session_is_resumed(old):
    learned = old.resume()
    assert learned.entry.new == ["3"] and learned.entry.epochs == 3
    assert names(old) == ["0", "1", "2", "3"] and not old.status()["interrupted"]
    assert old.undo().startswith("Undone learning session 3")


def test_its_sessions_are_undone_one_by_one(old, photos):
    assert old.undo().startswith("Dropped the learning session that was interrupted")
    assert names(old) == ["0", "1", "2"]
    assert old.undo().startswith("Undone learning session 2")
    assert names(old) == ["0", "1"]
    old.learn(photos.of("5"))
    assert names(old) == ["0", "1", "5"]


def test_what_it_left_while_it_read_pictures_is_an_interrupted_session(old):
    for name in ("task.safetensors", "checkpoints"):
        path = old.directory / "learning" / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert old.status()["interrupted"] and not old.status()["resumable"]
    assert "while its pictures were being read" in old.undo()
    assert names(old) == ["0", "1", "2"]
