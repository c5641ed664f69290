"""A limited time is kept to, and learning ends well in it. Time is simulated: no test measures it."""

import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import small

from sparcl.device import timed_loop
from sparcl.device.time_plan import TimePlan, epochs_that_fit
from sparcl.learning.loop import Loop, Stopped
from sparcl.sparsity import SPARSIFIERS, Sparsifier


class SimulatedTime:
    """A step takes `seconds(number)`; nothing else takes time."""

    def __init__(self, monkeypatch, seconds):
        self.now, self.steps = 100.0, 0
        monkeypatch.setattr(timed_loop, "TimePlan", functools.partial(TimePlan, clock=lambda: self.now))
        original = Loop.train_step

        def train_step(loop, task):
            self.steps += 1
            self.now += seconds(self.steps)
            original(loop, task)

        monkeypatch.setattr(Loop, "train_step", train_step)


def steady(number):
    return 1.0


def slow_at_first(number):
    return 5.0 if number <= 6 else 1.0


def slower_and_slower(number):
    return 1.0 + number / 40


@pytest.mark.parametrize("seconds", [steady, slow_at_first, slower_and_slower])
@pytest.mark.parametrize("budget", [20, 60, 200])
def test_learning_ends_in_time_with_a_mask_of_the_right_size(tmp_path, monkeypatch, photos, seconds, budget):
    learner = small(tmp_path / "shop", epochs=60, sparsifier={"stage_epochs": 5}, buffer_size=8)
    learner.learn(photos.of("0", "1"), epochs=1)
    simulated = SimulatedTime(monkeypatch, seconds)
    learned = learner.learn(photos.of("2", "3"), minutes=budget / 60)
    used = simulated.now - 100
    slowest = max(seconds(number) for number in (1, simulated.steps))
    assert used <= budget + slowest
    # What is set aside for judging and writing is some steps; an epoch of 6 steps may not fit any more.
    assert used >= budget - 18 * slowest or learned.entry.epochs == 60
    assert 1 <= learned.entry.epochs <= 60
    network = learner.status()["network"]
    assert abs(network["sparsity"] - 0.9) < 0.005  # nothing that was grown for the task is left


def test_a_sparsifier_of_ones_own_is_told_of_the_time(tmp_path, monkeypatch, photos):
    class Told(Sparsifier):
        open_ended = True
        epochs = []  # noqa: RUF012 (one sparsifier, one test)

        def replan(self, epochs):
            self.epochs.append(epochs)

    monkeypatch.setitem(SPARSIFIERS, "told", Told)
    learner = small(tmp_path / "shop", epochs=60, sparsifier={"name": "told"}, sparsity=0.0, buffer_size=8)
    SimulatedTime(monkeypatch, steady)
    learned = learner.learn(photos.of("0", "1"), minutes=1)
    assert Told.epochs[-1] == learned.entry.epochs < 20


def test_with_enough_time_nothing_changes(tmp_path, photos):
    learners = [small(tmp_path / name) for name in ("timed", "free")]
    learners[0].learn(photos.of("0", "1"), minutes=1000)
    learners[1].learn(photos.of("0", "1"))
    first, second = (learner.status()["history"][0] for learner in learners)
    assert (first["steps"], first["after"]) == (second["steps"], second["after"])


def test_time_used_before_an_interruption_counts(tmp_path, monkeypatch, photos):
    learner = small(tmp_path / "shop", epochs=100, buffer_size=8)
    simulated = SimulatedTime(monkeypatch, steady)

    class StopOnce:
        def noted(self, *_): ...
        def started(self, *_): ...

        def stepped(self, *_):
            if simulated.steps == 30:
                learner.request_stop()

    with pytest.raises(Stopped):
        learner.learn(photos.of("0", "1"), minutes=1, listener=StopOnce())
    simulated.now += 10_000  # the power was off for hours
    learner.resume()
    assert 40 <= simulated.steps <= 61


def test_a_time_too_short_for_an_epoch_still_learns_something(tmp_path, monkeypatch, photos):
    learner = small(tmp_path / "shop", epochs=60, buffer_size=8)
    simulated = SimulatedTime(monkeypatch, steady)
    learned = learner.learn(photos.of("0", "1"), minutes=0.01)
    assert learned.entry.epochs == 1 and simulated.steps <= 2


@given(most=st.integers(1, 40), fit=st.integers(0, 300), steps=st.integers(1, 20))
def test_as_many_epochs_as_fit(most, fit, steps):
    found = epochs_that_fit(most, lambda epochs: epochs * steps, fit)
    assert found == max(1, min(most, fit // steps))


def test_planning_many_epochs_asks_few_questions():
    asked = []
    assert epochs_that_fit(10**6, lambda epochs: asked.append(epochs) or 3 * epochs, 1000) == 333
    assert len(asked) <= 21
