"""Learners with optimizers that remember, with schedules, and with frozen parts."""

import pytest
from small import small, state
from test_time_plan import SimulatedTime, steady

from sparcl.device.learner import Learner, Silent
from sparcl.device.session import Session
from sparcl.errors import SparclError
from sparcl.learning.loop import Stopped
from sparcl.network.optimizer import Optimizer

OPTIMIZERS = {
    "nesterov": {"optimizer": {"momentum": 0.9, "nesterov": True}, "schedule": {"name": "linear", "warmup_steps": 3}},
    "adamw": {"optimizer": "adamw", "schedule": "cosine"},
}


class StopAfter(Silent):
    def __init__(self, learner, steps):
        self.learner, self.left = learner, steps

    def stepped(self, *_):
        self.left -= 1
        if self.left == 0:
            self.learner.request_stop()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_sessions_resume_exactly_and_later_ones_begin_anew(tmp_path, photos, optimizer):
    whole = small(tmp_path / "whole", **OPTIMIZERS[optimizer])
    whole.learn(photos.of("0", "1"))
    whole.learn(photos.of("2"))  # one output more, which the slots of the first session would not fit
    assert not any("optimizer" in name for name in state(whole)["tensors"])
    for steps in (1, 4, 6):
        stopped = small(tmp_path / str(steps), **OPTIMIZERS[optimizer])
        for classes in (("0", "1"), ("2",)):
            with pytest.raises(Stopped):
                stopped.learn(photos.of(*classes), listener=StopAfter(stopped, steps))
            Learner.open(stopped.directory).resume()
        assert state(stopped) == state(whole)


@pytest.mark.parametrize("seconds", [12, 60])
def test_the_rate_falls_within_the_time_there_is(tmp_path, monkeypatch, photos, seconds):
    """In 12 seconds not even an epoch fits."""
    rates = []
    step = Optimizer.step

    def spied(optimizer, *arguments):
        rates.append(optimizer.rate)
        step(optimizer, *arguments)

    monkeypatch.setattr(Optimizer, "step", spied)
    SimulatedTime(monkeypatch, steady)
    learner = small(tmp_path / "shop", epochs=60, batch_size=2, buffer_size=8, schedule="linear")
    learned = learner.learn(photos.of("0", "1", "2"), minutes=seconds / 60)
    assert learned.entry.steps == len(rates) <= seconds
    assert (len(rates) < 24 * 3 * 0.9 / 2) == (seconds == 12)
    first, *others = (rate / rates[0] for rate in rates)
    assert first == 1 and others == sorted(others, reverse=True)
    assert 0 < others[-1] < 0.3


def test_the_steps_that_fit_survive_an_interruption(tmp_path, monkeypatch, photos):
    SimulatedTime(monkeypatch, steady)
    learner = small(tmp_path / "shop", epochs=60, batch_size=2, buffer_size=8, schedule="linear")
    with pytest.raises(Stopped):
        learner.learn(photos.of("0", "1", "2"), minutes=0.3, listener=StopAfter(learner, 8))
    planned = []
    place = Session.schedule_place
    monkeypatch.setattr(Session, "schedule_place", lambda *given: planned.append(place(*given)) or planned[-1])
    learner.resume()
    assert planned[0][0] == 8 and planned[0][1] <= 18


def test_frozen_parts_stay_and_wrong_ones_are_refused_before_anything_is_written(tmp_path, photos):
    with pytest.raises(SparclError, match=r"rates names 'stem'.*classifier, conv1"):
        small(tmp_path / "shop", rates={"stem": 0})
    with pytest.raises(SparclError, match=r"schedule\.span=run is for experiments"):
        small(tmp_path / "shop", schedule={"span": "run"})
    assert not (tmp_path / "shop").exists()


def test_adamw_has_a_rate_of_its_own(tmp_path):
    assert small(tmp_path / "sgd").settings.training.method.options["learning_rate"] == 0.1
    assert small(tmp_path / "adamw", optimizer="adamw").settings.training.method.options["learning_rate"] == 0.001
    chosen = small(tmp_path / "own", optimizer="adamw", method={"name": "derpp", "learning_rate": 0.01})
    assert Learner.open(chosen.directory).settings.training.method.options["learning_rate"] == 0.01
