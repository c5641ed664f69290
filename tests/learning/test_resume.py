"""A run that is killed at any moment and resumed ends exactly as if nothing had happened."""

import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest
from runs import SMALL, everything_that_must_be_identical, sparcl

# Runs `sparcl run` in this process, and kills it with SIGKILL at a chosen moment.
DRIVER = textwrap.dedent(
    """
    import os, signal, sys
    import sparcl.learning.checkpoints as checkpoints
    from sparcl import files
    from sparcl.cli import main
    from sparcl.learning.evaluation import Evaluator
    from sparcl.learning.trainer import Trainer

    moment, count, *sys.argv[1:] = sys.argv[1:]
    left = int(count)

    def die_on(owner, name, before):
        original = getattr(owner, name)
        def replacement(*arguments, **options):
            global left
            left -= 1
            if left == 0 and before: os.kill(os.getpid(), signal.SIGKILL)
            result = original(*arguments, **options)
            if left == 0: os.kill(os.getpid(), signal.SIGKILL)
            return result
        setattr(owner, name, replacement)

    def half_a_checkpoint(tensors, path, metadata):
        global left
        left -= 1
        save_file(tensors, path, metadata=metadata)
        if left == 0:
            os.truncate(path, os.path.getsize(path) // 2)
            os.kill(os.getpid(), signal.SIGKILL)

    if moment == "step": die_on(Trainer, "train_step", before=False)
    if moment == "evaluation": die_on(Evaluator, "accuracies", before=True)
    if moment == "snapshot": die_on(Trainer, "_snapshot_if_due", before=False)
    if moment == "checkpoint": save_file = checkpoints.save_file; checkpoints.save_file = half_a_checkpoint
    if moment == "rename": die_on(files, "sync", before=True)
    if moment == "finish": die_on(files, "write_json", before=False)
    main.main()
    """
)


def run_and_kill(moment, count, *arguments):
    command = [sys.executable, "-c", DRIVER, moment, str(count), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300).returncode


@pytest.mark.parametrize(
    ("moment", "count"),
    [
        ("step", 1),  # before the first checkpoint exists
        ("step", 30),  # in the middle of an epoch
        ("step", 61),
        ("checkpoint", 4),  # half of a checkpoint is written
        ("checkpoint", 40),
        ("rename", 21),  # the checkpoint is whole, but not yet renamed or made durable
        ("rename", 22),
        ("evaluation", 5),
        ("snapshot", 33),
    ],
)
def test_killed_at_any_moment_and_resumed(tmp_path, uninterrupted, moment, count):
    directory = tmp_path / "run"
    every_step = ["--set", "checkpoint.minutes=0"]
    killed = run_and_kill(moment, count, "run", "digits/derpp", *SMALL, *every_step, "--out", directory, "--quiet")
    assert killed == -signal.SIGKILL
    resumed = sparcl("run", "--resume", directory, "--quiet")
    assert resumed.returncode == 0, resumed.stderr
    assert everything_that_must_be_identical(directory) == uninterrupted["derpp"]
    assert not list(directory.rglob("*.partial"))


@pytest.mark.parametrize("method", ["sgd", "joint", "er", "der"])
def test_every_method_resumes_and_repeats_exactly(tmp_path, uninterrupted, method):
    directory = tmp_path / "run"
    every_step = ["--set", "checkpoint.minutes=0"]
    run_and_kill("step", 25, "run", f"digits/{method}", *SMALL, *every_step, "--out", directory, "--quiet")
    assert sparcl("run", "--resume", directory, "--quiet").returncode == 0
    assert everything_that_must_be_identical(directory) == uninterrupted[method]


def test_the_same_seed_gives_the_same_bits_and_another_seed_does_not(tmp_path, uninterrupted):
    for seed in (0, 1):
        sparcl("run", "digits/derpp", *SMALL, "--set", f"seed={seed}", "--out", tmp_path / str(seed), "--quiet")
    assert everything_that_must_be_identical(tmp_path / "0") == uninterrupted["derpp"]
    assert everything_that_must_be_identical(tmp_path / "1")["metrics"] != uninterrupted["derpp"]["metrics"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_keeps_the_work(tmp_path, uninterrupted, number):
    """Signals arrive while the metrics file grows, so somewhere in the middle; wherever, the end is the same."""
    directory = tmp_path / "run"
    command = [sys.executable, "-m", "sparcl.cli.main", "run", "digits/derpp", *SMALL, "--out", directory, "--quiet"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    metrics = directory / "metrics.jsonl"
    while process.poll() is None and not (metrics.exists() and metrics.stat().st_size):
        os.sched_yield()
    process.send_signal(number)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 130, errors
    assert f"sparcl run --resume {directory}" in errors
    assert sparcl("run", "--resume", directory, "--quiet").returncode == 0
    assert everything_that_must_be_identical(directory) == uninterrupted["derpp"]


def test_a_damaged_newest_checkpoint_is_passed_over(tmp_path, uninterrupted):
    directory = tmp_path / "run"
    run_and_kill("step", 30, "run", "digits/derpp", *SMALL, "--set", "checkpoint.minutes=0", "--out", directory, "-q")
    newest = max((directory / "checkpoints").glob("*.safetensors"))
    newest.write_bytes(newest.read_bytes()[:-100])
    assert sparcl("run", "--resume", directory, "--quiet").returncode == 0
    assert everything_that_must_be_identical(directory) == uninterrupted["derpp"]


def test_checkpoints_that_cannot_be_used_are_refused_in_one_line(tmp_path):
    directory = tmp_path / "run"
    run_and_kill("step", 30, "run", "digits/derpp", *SMALL, "--set", "checkpoint.minutes=0", "--out", directory, "-q")
    settings = json.loads((directory / "settings.json").read_text())
    (directory / "settings.json").write_text(json.dumps(settings | {"width": 5}))
    foreign = sparcl("run", "--resume", directory)
    assert foreign.returncode == 1
    assert "does not belong to this run" in foreign.stderr
    for checkpoint in (directory / "checkpoints").glob("*.safetensors"):
        checkpoint.write_bytes(b"not a checkpoint")
    damaged = sparcl("run", "--resume", directory)
    assert damaged.returncode == 1
    assert "damaged" in damaged.stderr
    assert [len(run.stderr.splitlines()) for run in (foreign, damaged)] == [1, 1]


def test_only_the_last_two_checkpoints_are_kept(tmp_path):
    directory = tmp_path / "run"
    run_and_kill("step", 10, "run", "digits/sgd", *SMALL, "--set", "checkpoint.minutes=0", "--out", directory, "-q")
    assert len(list((directory / "checkpoints").iterdir())) == 2
