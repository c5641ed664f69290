"""Runs with optimizers that remember and with schedules go on exactly, stopped between any two steps or killed."""

import pytest
from runs import Nobody, everything_that_must_be_identical, sparcl, trainer_of
from test_resume import refuses, run_and_kill, with_array

from sparcl.learning.loop import Stopped
from sparcl.tensor_files import read

OPTIMIZERS = {
    "momentum": ["optimizer.momentum=0.9", "method.weight_decay=0.001"],
    "nesterov": ["optimizer.momentum=0.9", "optimizer.nesterov=true", "schedule=linear"],
    "adamw": ["optimizer=adamw"],
    "adamw, warm-up, cosine": [
        "optimizer=adamw",
        "schedule=cosine",
        "schedule.warmup_steps=2",
        "rates={conv1=0, bn1=0, conv2=0.5}",
    ],
    "cosine over the run": ["schedule=cosine", "schedule.span=run"],
}
# Two tasks of two epochs of three steps. Masks move after the first epoch, and gradient masks every second step.
PRESET = "digits/sparcl-derpp-75"
SMALL = [
    *("data.tasks=2", "data.images_per_task=48", "batch_size=16", "epochs=2", "width=4", "threads=1", "buffer_size=20"),
    *("sparsifier.stage_epochs=1", "sparsifier.gradient_interval=2", "sparsifier.q=0.1", "sparsifier.rho=0"),
    *("evaluation.batch_size=1000", "checkpoint.minutes=1000", "tuning_seconds=0"),
]
STEPS = 12


class StopAfter(Nobody):
    def __init__(self, steps):
        self.left = steps

    def stepped(self, *_):
        self.left -= 1
        if self.left == 0:
            self.trainer.request_stop()


def learn(path, changes, stopped_after=0):
    listener = StopAfter(stopped_after)
    trainer = listener.trainer = trainer_of(PRESET, path, *SMALL, *changes, listener=listener)
    trainer.run()
    return trainer


@pytest.mark.parametrize("backend", ["native", "torch"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_stopped_between_any_two_steps(tmp_path, optimizer, backend):
    changes = [*OPTIMIZERS[optimizer], f"backend={backend}"]
    whole = learn(tmp_path / "whole", changes)
    assert whole.position.total_steps == STEPS
    expected = everything_that_must_be_identical(tmp_path / "whole")
    for stop in range(1, STEPS):
        with pytest.raises(Stopped):
            learn(tmp_path / str(stop), changes, stop)
        learn(tmp_path / str(stop), changes)
        assert everything_that_must_be_identical(tmp_path / str(stop)) == expected, f"stopped after step {stop}"


@pytest.mark.parametrize("backend", ["native", "torch"])
@pytest.mark.parametrize("optimizer", ["nesterov", "adamw, warm-up, cosine"])
def test_killed_in_the_middle_of_a_task(tmp_path, optimizer, backend):
    changes = [*SMALL, *OPTIMIZERS[optimizer], f"backend={backend}"]
    preset = ["run", PRESET, *(part for change in changes for part in ("--set", change)), "--quiet"]
    assert sparcl(*preset, "--out", tmp_path / "whole").returncode == 0
    often = ["--set", "checkpoint.minutes=0"]
    assert run_and_kill("step", 8, *preset, *often, "--out", tmp_path / "killed") < 0
    assert sparcl("run", "--resume", tmp_path / "killed", "--quiet").returncode == 0
    whole, killed = (everything_that_must_be_identical(tmp_path / name) for name in ("whole", "killed"))
    assert killed == whole


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    path = tmp_path_factory.mktemp("stopped") / "run"
    with pytest.raises(Stopped):
        learn(path, OPTIMIZERS["adamw"], 5)
    return path


def tensors_of(path):
    with open(max((path / "checkpoints").iterdir()), "rb") as file:
        return read(file)[0]


def test_slots_are_in_the_checkpoint_only_while_a_task_is_learned(stopped, tmp_path):
    slots = {"method.optimizer.first_moment", "method.optimizer.second_moment", "method.optimizer.steps"}
    stored = tensors_of(stopped)
    assert slots <= stored.keys()
    assert stored["method.optimizer.steps"].max() == 5
    learn(tmp_path / "whole", OPTIMIZERS["adamw"])
    assert not any(name.startswith("method.optimizer") for name in tensors_of(tmp_path / "whole"))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("first_moment", lambda slot: slot[:-1]),
        ("first_moment", lambda slot: slot * float("nan")),
        ("second_moment", lambda slot: -slot),
        ("steps", lambda slot: slot - 100),
        ("steps", lambda slot: slot.astype("int64")),
    ],
)
def test_slots_that_were_tampered_with_are_refused_in_one_line(stopped, tmp_path, name, change):
    refuses(with_array(stopped, tmp_path / "run", f"method.optimizer.{name}", change), "the optimizer's")


def test_another_optimizer_does_not_take_over(stopped, tmp_path):
    for preset in ("optimizer=sgd", "optimizer.momentum=0.5"):
        trainer = trainer_of(PRESET, tmp_path / preset, *SMALL, preset)
        state = {name.removeprefix("method."): array for name, array in tensors_of(stopped).items()}
        with pytest.raises(ValueError, match="that of another one"):
            trainer.method.restore(state, 0)
