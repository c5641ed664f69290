"""A run that ends up guessing says so; one that forgets does not."""

from pathlib import Path

import pytest
from runs import Nobody

from sparcl.data import load_stream
from sparcl.learning import environment, settings
from sparcl.learning.guessing import warning
from sparcl.learning.run_directory import RunDirectory
from sparcl.learning.trainer import Trainer

STREAM = {
    "class_names": ["a", "b", "c", "d"],
    "tasks": [{"classes": [0, 2], "train": 500, "test": 200}, {"classes": [2, 4], "train": 500, "test": 200}],
}


def events(accuracy=50.0, loss=0.7, task_il=(50.0, 50.0), epochs=3):
    """Of a run whose last task looked so."""
    learned = {"event": "epoch", "task": 0, "epoch": 0, "samples": 500, "loss": 0.01, "train_accuracy": 99.0}
    last = [
        {"event": "epoch", "task": 1, "epoch": epoch, "samples": 500, "loss": loss, "train_accuracy": accuracy}
        for epoch in range(epochs)
    ]
    end = {"event": "task", "task": 1, "class_il": [25.0, 25.0], "task_il": list(task_il)}
    return [learned, {"event": "task", "task": 0, "class_il": [99.0], "task_il": [99.0, 50.0]}, *last, end]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, True),
        ({"accuracy": 52.0, "task_il": (47.0, 55.0)}, True),  # luck
        ({"loss": 280.0}, True),
        ({"loss": 0.6}, False),  # it learns something
        ({"accuracy": 60.0}, False),
        ({"task_il": (50.0, 75.0)}, False),
        ({"task_il": (90.0, 50.0)}, False),  # a last task that was too hard, or too short
    ],
)
def test_all_signs_must_agree(changed, expected):
    assert (warning(events(**changed), STREAM, at_once=False, learning_rate=9.0) is not None) == expected


def test_joint_training_is_judged_by_all_classes():
    content = events(accuracy=25.0, loss=1.4, task_il=(50.0, 50.0))
    assert warning(content, STREAM, at_once=True, learning_rate=9.0)
    assert not warning([*content[:-1], content[-1] | {"task_il": [80.0, 80.0]}], STREAM, True, 9.0)
    assert not warning(events(accuracy=40.0, loss=1.4), STREAM, at_once=True, learning_rate=9.0)


def result_of(path: Path, preset: str, *changes: str) -> dict:
    chosen = settings.resolve(settings.with_changes(settings.from_preset(preset), ["width=4", "threads=1", *changes]))
    stream = load_stream(chosen.dataset, order_seed=chosen.seed, **vars(chosen.data))
    trainer = Trainer(chosen, stream, RunDirectory(path), Nobody())
    RunDirectory.create(path, trainer.settings, environment.describe())
    result = trainer.run()
    assert RunDirectory.open(path).result() == result
    return result


@pytest.mark.parametrize("preset", ["digits/sgd", "digits/joint", "rotated-digits/er"])
def test_far_too_high_a_learning_rate_is_told(tmp_path, preset):
    doubtful = result_of(tmp_path / "doubtful", preset, "epochs=1", "method.learning_rate=1000")
    [line] = doubtful["warnings"]
    assert "no better than chance" in line and "method.learning_rate=1000" in line


@pytest.mark.parametrize("preset", ["digits/sgd", "digits/joint", "digits/packnet", "digits/lwf"])
def test_ordinary_runs_say_nothing_even_if_they_forget(tmp_path, preset):
    result = result_of(tmp_path / "ordinary", preset, "width=8", "epochs=3")
    assert "warnings" not in result
