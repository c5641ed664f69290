"""Deep learning as a learner's user meets it: it is kept only if it helps, it can be stopped, continued, and undone."""

import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from drawings import content_of, draw, drawn, make

from sparcl import Learner, SparclError
from sparcl.errors import UnfinishedError
from sparcl.instant.verdict import Verdict
from sparcl.learning.loop import Stopped

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
PICTURES = 80


@pytest.fixture(scope="module")
def knows_two(tmp_path_factory):
    learner = make(tmp_path_factory.mktemp("deep") / "shop", undo_steps=5)
    learner.learn({name: drawn(name, PICTURES) for name in ("apples", "pears")})
    return learner


@pytest.fixture
def shop(knows_two, tmp_path):
    subprocess.run(["cp", "-r", str(knows_two.directory), str(tmp_path / "shop")], check=True)
    return Learner.open(tmp_path / "shop")


def test_what_was_learned_deeply_predicts_and_can_be_undone(shop, monkeypatch):
    before = content_of(shop)
    monkeypatch.setattr(Verdict, "kept", property(lambda self: True))
    assert "Learned deeply" in shop.deepen(0.05)
    state = shop.state()
    assert state.upper and state.history[-1].steps > 0
    assert sum(count for _, count in state.head.calibration.right) < PICTURES  # only those that were never trained on
    assert [answer.classes[0] for answer in shop.predict([draw("apples", 500), draw("pears", 500)])] == [
        "apples",
        "pears",
    ]
    shop.learn({"plums": drawn("plums", 5)})  # on top of it
    assert shop.predict([draw("plums", 0)], always=True)[0].name == "plums"
    shop.undo()
    shop.undo()
    assert content_of(shop) == before


def test_what_does_not_help_is_not_kept(shop, monkeypatch):
    before = content_of(shop)
    monkeypatch.setattr(Verdict, "kept", property(lambda self: False))
    assert "did not help" in shop.deepen(0.05)
    assert content_of(shop) == before and not (shop.directory / "learning").exists()


class StopsAfter:
    def __init__(self, learner, steps):
        self._learner, self._steps = learner, steps

    def noted(self, text):
        pass

    def started(self, total_steps, done_steps):
        pass

    def stepped(self, epoch, epochs, step, total_steps, loss):
        self._steps -= 1
        if self._steps == 0:
            self._learner.request_stop()


def test_a_stopped_session_is_continued(shop, monkeypatch):
    monkeypatch.setattr(Verdict, "kept", property(lambda self: True))
    before = content_of(shop)
    with pytest.raises(Stopped):
        shop.deepen(0.1, listener=StopsAfter(shop, 3))
    assert content_of(shop) == before and shop.status()["interrupted"]
    with pytest.raises(UnfinishedError):
        shop.learn({"plums": drawn("plums", 2)})
    assert "Learned deeply" in shop.resume().deepened
    assert shop.state().upper and not (shop.directory / "learning").exists()
    with pytest.raises(SparclError, match="nothing to resume"):
        shop.resume()


def test_forgetting_drops_what_was_interrupted(shop):
    with pytest.raises(Stopped):
        shop.deepen(0.1, listener=StopsAfter(shop, 3))
    shop.forget(picture=draw("apples", 0))
    assert not (shop.directory / "learning").exists()


def test_too_few_pictures_are_learned_at_once_only(tmp_path):
    learner = make(tmp_path / "shop")
    result = learner.learn({name: drawn(name, 6) for name in ("apples", "pears")}, minutes=1)
    assert result.deepened is None and not learner.state().upper
    with pytest.raises(SparclError, match="too few pictures"):
        learner.deepen(1)
    assert not (tmp_path / "shop" / "learning").exists()


def test_ctrl_c_keeps_the_work(shop):
    command = [sys.executable, "-m", "sparcl.cli.main", "deepen", str(shop.directory), "--minutes", "5"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not (shop.directory / "learning" / "deepening.json").exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 128 + signal.SIGINT and "sparcl deepen" in errors and "--resume" in errors
    assert np.isfinite(shop.status()["accuracy"])
    assert "Dropped the learning session" in shop.undo()
