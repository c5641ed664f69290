"""A run works in the directory that it has locked, whatever that is called by now."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap

import pytest
from runs import SMALL, sparcl

from sparcl.cli import run
from sparcl.errors import SparclError
from sparcl.files import BusyError, Directory, locked
from sparcl.learning.run_directory import METRICS, MetricsLog, RunDirectory
from sparcl.learning.settings import from_preset, resolve

# Runs `sparcl run` in this process; after some steps the directory is renamed, swapped or removed.
DRIVER = textwrap.dedent(
    """
    import os, shutil, sys
    from sparcl.cli import main
    from sparcl.learning.trainer import Trainer

    what, path, *sys.argv[1:] = sys.argv[1:]
    train_step, left = Trainer.train_step, 10

    def moving(trainer, task):
        global left
        left -= 1
        if left == 0:
            if what == "removed":
                shutil.rmtree(path)
            else:
                os.rename(path, path + "-moved")
            if what == "swapped":
                os.mkdir(path)
                open(path + "/settings.json", "w").write("another run")
        train_step(trainer, task)

    Trainer.train_step = moving
    main.main()
    """
)


def run_and_move(what, path):
    command = [sys.executable, "-c", DRIVER, what, path, "run", "digits/er", *SMALL, "--quiet", "--out", path]
    command += ["--set", "checkpoint.minutes=0"]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.parametrize("what", ["renamed", "swapped"])
def test_a_run_that_is_renamed_keeps_all_of_its_files(tmp_path, uninterrupted, what):
    finished = run_and_move(what, tmp_path / "run")
    assert finished.returncode == 0, finished.stderr
    assert f"is in {tmp_path / 'run-moved'}" in finished.stdout
    found = {str(file.relative_to(tmp_path / "run-moved")) for file in (tmp_path / "run-moved").rglob("*.json*")}
    assert found >= {"settings.json", "metrics.jsonl", "result.json", "costs.json", "stream.json", "confusion.json"}
    assert (tmp_path / "run-moved" / "metrics.jsonl").read_bytes() == uninterrupted["er"]["metrics"]
    if what == "renamed":
        assert not (tmp_path / "run").exists()
    else:
        assert [(file.name, file.read_text()) for file in (tmp_path / "run").iterdir()] == [
            ("settings.json", "another run")
        ]


def test_a_run_whose_directory_is_removed_ends_with_one_line(tmp_path):
    finished = run_and_move("removed", tmp_path / "run")
    assert finished.returncode == 1
    assert finished.stderr.splitlines() == [
        f"sparcl: {tmp_path / 'run'} was moved or removed while work was being done in it. "
        "Nothing was written to what is there now."
    ]
    assert not list(tmp_path.iterdir())


def test_whoever_locks_next_removes_what_was_left(tmp_path):
    """Ours, and those that safetensors made in version 0.1.0; nothing else."""
    run = tmp_path / "run"
    assert sparcl("run", "digits/sgd", *SMALL, "--quiet", "--out", run).returncode == 0
    (run / "result.json").unlink()
    kept = sorted(run.rglob("*"))
    for name in ("settings.json.partial", "checkpoints/0000000099.safetensors.partial", "checkpoints/.tmpAb12Cd"):
        (run / name).write_bytes(b"half")
    (run / ".tmp").write_text("somebody's own")
    assert sparcl("run", "--resume", run, "--quiet").returncode == 0
    assert sorted(run.rglob("*")) == sorted([*kept, run / "result.json", run / ".tmp"])


def test_the_name_of_a_run_that_was_killed_before_it_began_is_used_again(tmp_path):
    (tmp_path / "runs" / "digits-sgd-seed0").mkdir(parents=True)
    (tmp_path / "runs" / "digits-sgd-seed0" / "environment.json").write_text("{}")
    (tmp_path / "runs" / "digits-sgd-seed0" / "settings.json.partial").write_text("{")
    finished = sparcl("run", "digits/sgd", *SMALL, "--quiet", cwd=tmp_path)
    assert finished.returncode == 0, finished.stderr
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["digits-sgd-seed0"]
    assert not list(tmp_path.rglob("*.partial"))


def test_a_directory_that_is_locked_or_cannot_be_made_is_said(tmp_path):
    with locked(tmp_path), pytest.raises(BusyError, match="Another process"), locked(tmp_path):
        pass
    (tmp_path / "runs").write_text("a file")
    refused = sparcl("run", "digits/sgd", *SMALL, "--quiet", cwd=tmp_path)
    assert refused.returncode == 1 and len(refused.stderr.splitlines()) == 1


def test_a_directory_that_was_taken_before_it_was_locked_is_refused(tmp_path, monkeypatch):
    """By a run that began and ended between the first look at it and the lock."""
    chosen = resolve(from_preset("digits/sgd"))

    def make_and_fill(path):
        path.mkdir()
        (path / "settings.json").write_text("another run")

    monkeypatch.setattr(run, "make_directory", make_and_fill)
    with pytest.raises(SparclError, match="already holds a run"), run._new_directory(chosen, tmp_path / "run"):
        pass
    assert (tmp_path / "run" / "settings.json").read_text() == "another run"


def test_a_lock_is_that_of_the_directory_that_is_there(tmp_path, monkeypatch):
    """Between opening and locking, somebody puts another directory in its place."""
    path = tmp_path / "run"
    path.mkdir()
    opened = Directory.open.__func__
    swaps = iter([True])

    def open_and_swap(cls, where):
        directory = opened(cls, where)
        if next(swaps, False):
            path.rename(tmp_path / "old")
            path.mkdir()
        return directory

    monkeypatch.setattr(Directory, "open", classmethod(open_and_swap))
    with locked(path) as held:
        assert held.is_at(path)


def test_what_is_held_is_written_wherever_it_is(tmp_path):
    path = tmp_path / "run"
    path.mkdir()
    directory = RunDirectory(path, Directory.open(path))
    log = MetricsLog(directory.held)
    path.rename(tmp_path / "moved")
    path.mkdir()
    log.write("event", number=1)
    directory.record_confusion("class_il", 0, [[1]])
    assert directory.current_path() == tmp_path / "moved"
    assert not list(path.iterdir())
    assert {file.name for file in (tmp_path / "moved").iterdir()} == {METRICS, "confusion.json"}
    shutil.rmtree(tmp_path / "moved")
    with pytest.raises(SparclError, match="was moved or removed"):
        directory.record_confusion("class_il", 0, [[1]])
    with pytest.raises(SparclError, match="was moved or removed"):
        directory.current_path()
    assert not list(path.iterdir())


def test_sigterm_stops_a_run_of_a_trillion_epochs_and_keeps_the_work(tmp_path):
    command = [sys.executable, "-m", "sparcl.cli.main", "run", "digits/sparcl-er-90", *SMALL, "--quiet"]
    command += ["--set", "epochs=1000000000000", "--set", "checkpoint.minutes=0", "--out", str(tmp_path / "run")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and not list(tmp_path.glob("run/checkpoints/*.safetensors")):
            os.sched_yield()
        process.send_signal(signal.SIGTERM)
        assert "nothing is lost" in process.communicate(timeout=100)[1]
    assert process.returncode == 128 + signal.SIGTERM
    counted = sparcl("cost", "digits/sparcl-er-90", "--set", "epochs=1000000000000", "--json")
    assert counted.returncode == 0 and '"steps"' in counted.stdout
    reported = sparcl("report", tmp_path / "run", "--out", tmp_path / "page.html")
    assert reported.returncode == 0, reported.stderr
