"""The learning rate of every step, against closed forms and torch's schedulers."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from runs import trainer_of

from sparcl.learning.rate_schedule import ScheduleSettings
from sparcl.network.optimizer import Optimizer

NAMES = ("constant", "linear", "cosine")


def factors(steps, name, warmup_steps=0):
    schedule = ScheduleSettings(name=name, warmup_steps=warmup_steps)
    return [schedule.factor(step, steps) for step in range(steps)]


@pytest.mark.parametrize("steps", [1, 2, 7, 100])
@pytest.mark.parametrize("name", NAMES)
def test_without_warm_up_it_is_torchs(name, steps):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = {
        "constant": lambda: torch.optim.lr_scheduler.ConstantLR(optimizer, 1.0),
        "linear": lambda: torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=steps),
        "cosine": lambda: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps),
    }[name]()
    expected = []
    for _ in range(steps):
        expected.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        theirs.step()
    assert factors(steps, name) == pytest.approx(expected, abs=1e-12)


def test_the_rate_rises_to_all_of_it_and_then_falls_as_over_the_steps_that_are_left():
    assert factors(8, "constant", 4) == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0]
    assert factors(8, "linear", 4) == [0.25, 0.5, 0.75, 1.0, 1.0, 0.75, 0.5, 0.25]
    assert factors(6, "cosine", 2) == pytest.approx(
        [0.5, 1.0, 1.0, *(0.5 + 0.5 * math.cos(math.pi * p / 4) for p in (1, 2, 3))]
    )


@given(st.sampled_from(NAMES), st.integers(1, 10**12), st.integers(0, 10**12), st.data())
def test_it_never_leaves_its_bounds_and_never_rises_after_the_warm_up(name, steps, warmup, data):
    schedule = ScheduleSettings(name=name, warmup_steps=warmup)
    one = data.draw(st.integers(0, 2 * steps))  # a plan may change while a task is learned
    other = data.draw(st.integers(one, 2 * steps))
    first, second = schedule.factor(one, steps), schedule.factor(other, steps)
    assert 0 <= first <= 1 and 0 <= second <= 1
    if other < warmup:
        assert 0 < first <= second
    elif one >= warmup:
        assert first >= second
    if warmup <= one < steps:
        assert first > 0


@pytest.fixture
def rates(monkeypatch):
    """The learning rate of every step that is taken."""
    seen = []
    step = Optimizer.step

    def spied(optimizer, *arguments):
        seen.append(optimizer.rate)
        step(optimizer, *arguments)

    monkeypatch.setattr(Optimizer, "step", spied)
    return seen


SMALL = ("data.tasks=2", "width=4", "threads=1", "data.images_per_task=96", "buffer_size=20", "batch_size=16")


@pytest.mark.parametrize("name", NAMES)
def test_each_task_starts_again(tmp_path, rates, name):
    trainer_of("digits/er", tmp_path, *SMALL, "epochs=2", f"schedule={name}", "schedule.warmup_steps=3").run()
    of_a_task = [0.1 * factor for factor in factors(12, name, 3)]
    assert rates == pytest.approx([*of_a_task, *of_a_task])


def test_once_over_the_whole_run(tmp_path, rates):
    trainer_of("digits/er", tmp_path, *SMALL, "epochs=2", "schedule=linear", "schedule.span=run").run()
    assert rates == pytest.approx([0.1 * factor for factor in factors(24, "linear")])


def test_the_steps_are_those_that_data_removal_leaves(tmp_path, rates):
    trainer = trainer_of("digits/sparcl-er-75", tmp_path, *SMALL, "epochs=6", "schedule=linear")
    trainer.run()
    steps = len(rates) // 2
    assert steps < 6 * 6  # samples were removed
    of_a_task = [0.1 * factor for factor in factors(steps, "linear")]
    assert rates == pytest.approx([*of_a_task, *of_a_task])


def test_all_tasks_at_once_are_one_task(tmp_path, rates):
    trainer_of("digits/joint", tmp_path, *SMALL, "epochs=1", "schedule=linear", "method.learning_rate=1").run()
    assert rates == pytest.approx(factors(12, "linear"))


def test_a_method_that_updates_twice_in_a_step_has_one_rate_for_both(tmp_path, rates):
    trainer_of("digits/fdr", tmp_path, *SMALL, "epochs=1", "schedule=linear", "method.learning_rate=1").run()
    first, second = factors(6, "linear"), [factor for factor in factors(6, "linear") for _ in range(2)]
    assert rates == pytest.approx([*first, *second])
