"""Setting up a run: the same for `sparcl run` and for a trial of an experiment."""

import dataclasses

import pytest
from runs import Nobody

from sparcl.data.export import export_pictures
from sparcl.data.load import find_source
from sparcl.errors import SparclError
from sparcl.learning.run_directory import RunDirectory
from sparcl.learning.runner import Run
from sparcl.learning.settings import from_preset, resolve, with_changes
from sparcl.learning.trainer import Stopped
from sparcl.network.backend import available_cores

SMALL = ["data.tasks=2", "epochs=2", "width=4"]


def chosen(*changes, preset="digits/er"):
    return resolve(with_changes(from_preset(preset), [*SMALL, *changes]))


class StopAfter(Nobody):
    def __init__(self, run, steps):
        self.run, self.left = run, steps

    def stepped(self, *_):
        self.left -= 1
        if not self.left:
            self.run.request_stop()


def learn(path, settings=None, stop_after=0):
    path.mkdir(exist_ok=True)
    run = Run(RunDirectory(path), settings)
    run.prepare(StopAfter(run, stop_after) if stop_after else Nobody())
    return run.learn()


def test_it_begins_or_continues_whatever_the_directory_holds(tmp_path):
    whole = learn(tmp_path / "whole", chosen())
    with pytest.raises(Stopped):
        learn(tmp_path / "stopped", chosen(), stop_after=5)
    # What was begun counts, not what is asked for now.
    assert learn(tmp_path / "stopped", chosen("seed=7")) == whole
    first, second = (RunDirectory(tmp_path / name) for name in ("whole", "stopped"))
    assert first.events() == second.events() and first.settings() == second.settings()


def test_what_is_stored_means_the_same_everywhere(tmp_path, monkeypatch):
    export_pictures(find_source("digits"), None, tmp_path / "photos")
    monkeypatch.chdir(tmp_path)
    settings = chosen("data.root=photos", "data.classes_per_task=5", "data.image_size=8", preset="folder/er")
    assert not settings.data.root.is_absolute() and settings.threads == 0
    (tmp_path / "run").mkdir()
    run = Run(RunDirectory(tmp_path / "run"), settings)
    assert run.settings.data.root == tmp_path / "photos"
    assert run.settings.threads == available_cores()


def test_what_cannot_work_leaves_nothing_behind(tmp_path):
    wrong = dataclasses.replace(chosen(), batch_size=1, model="resnet18", replay_batch_size=1)
    run = Run(RunDirectory(tmp_path), wrong)
    with pytest.raises(SparclError, match="Batches of one sample"):
        run.prepare(Nobody())
    assert not any(tmp_path.iterdir())
