"""A run that is killed at any moment and resumed ends exactly as if nothing had happened."""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from PIL import Image
from runs import SMALL, Nobody, everything_that_must_be_identical, sparcl

from sparcl import tensor_files
from sparcl.data import load_stream
from sparcl.errors import SparclError
from sparcl.files import read_json
from sparcl.learning.run_directory import RunDirectory
from sparcl.learning.trainer import Trainer
from sparcl.metrics.costs import PHASES

# Runs `sparcl run` in this process, and kills it with SIGKILL (or asks it to stop) at a chosen moment.
DRIVER = textwrap.dedent(
    """
    import os, signal, sys
    from sparcl import tensor_files
    from sparcl.cli import main
    from sparcl.learning.evaluation import Evaluator
    from sparcl.learning.run_directory import RunDirectory
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

    def half_a_checkpoint(file, *content):
        global left
        left -= 1
        write(file, *content)
        if left == 0:
            file.truncate(file.tell() // 2)
            os.kill(os.getpid(), signal.SIGKILL)

    def ask_to_stop(with_signal):
        original = Trainer.train_step
        def train_step(trainer, task):
            global left
            left -= 1
            if left == 0: os.kill(os.getpid(), with_signal)
            original(trainer, task)
        Trainer.train_step = train_step

    if moment == "step": die_on(Trainer, "train_step", before=False)
    if moment == "SIGINT": ask_to_stop(signal.SIGINT)
    if moment == "SIGTERM": ask_to_stop(signal.SIGTERM)
    if moment == "evaluation": die_on(Evaluator, "accuracies", before=True)
    if moment == "snapshot": die_on(Trainer, "_snapshot_if_due", before=False)
    if moment == "checkpoint": write = tensor_files.write; tensor_files.write = half_a_checkpoint
    if moment == "rename": die_on(os, "replace", before=True)
    if moment == "sync": die_on(os, "fsync", before=True)
    if moment == "finish": die_on(RunDirectory, "_write", before=False)
    main.main()
    """
)


def run_until(moment, count, *arguments):
    command = [sys.executable, "-c", DRIVER, moment, str(count), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def run_and_kill(moment, count, *arguments):
    return run_until(moment, count, *arguments).returncode


@pytest.mark.parametrize(
    ("moment", "count"),
    [
        ("step", 1),  # before the first checkpoint exists
        ("step", 30),  # in the middle of an epoch
        ("step", 61),
        ("checkpoint", 4),  # half of a checkpoint is written
        ("checkpoint", 40),
        ("rename", 21),  # the checkpoint is whole, but not yet renamed
        ("sync", 44),  # nor made durable
        ("sync", 45),
        ("evaluation", 5),
        ("snapshot", 33),
        ("finish", 3),  # environment, settings and costs are written, the result is not
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


@pytest.mark.parametrize("method", ["sgd", "joint", "er", "der", "sparcl-derpp-75", "snip-er-80", "rigl-derpp-80"])
def test_every_method_resumes_and_repeats_exactly(tmp_path, uninterrupted, method):
    directory = tmp_path / "run"
    every_step = ["--set", "checkpoint.minutes=0"]
    run_and_kill("step", 25, "run", f"digits/{method}", *SMALL, *every_step, "--out", directory, "--quiet")
    assert sparcl("run", "--resume", directory, "--quiet").returncode == 0
    assert everything_that_must_be_identical(directory) == uninterrupted[method]


def test_changes_of_the_mask_within_an_epoch_are_written_down_once(tmp_path):
    """RigL moves weights in the middle of epochs; what is recorded there must survive a stop right after it."""
    often = [*SMALL, "--set", "sparsifier.interval=3", "--quiet"]
    assert sparcl("run", "digits/rigl-er-80", *often, "--out", tmp_path / "whole").returncode == 0
    run_until("SIGTERM", 5, "run", "digits/rigl-er-80", *often, "--out", tmp_path / "stopped")
    assert sparcl("run", "--resume", tmp_path / "stopped", "--quiet").returncode == 0
    whole, stopped = ((tmp_path / name / "metrics.jsonl").read_text() for name in ("whole", "stopped"))
    assert stopped == whole and whole.count('"adjustment"') > 4


# Makes every run tune, and tuning choose knobs that nothing else would: tiles of one pixel, blocks of one channel.
ODD_TUNING = """
import sparcl.learning.tuning as tuning
from sparcl.tuning import Tuned
tuning.WORTH_TUNING = 0
tuning.tune = lambda network, *_, **__: [Tuned("convolve all", tuple(network.convolutions), (0, 1), 2.0, 1.0)]
"""


def test_a_tuned_run_resumes_with_the_same_knobs(tmp_path, uninterrupted, monkeypatch):
    monkeypatch.setenv("SPARCL_CACHE", str(tmp_path / "cache"))
    preset = ["run", "digits/sparcl-derpp-75", *SMALL, "--set", "checkpoint.minutes=0", "--quiet", "--out"]
    for name, moment in (("whole", "never"), ("killed", "step")):
        command = [sys.executable, "-c", ODD_TUNING + DRIVER, moment, "25", *preset, tmp_path / name]
        subprocess.run(command, capture_output=True, check=False, timeout=300)
    tuned = everything_that_must_be_identical(tmp_path / "whole")
    assert tuned["result"] != uninterrupted["sparcl-derpp-75"]["result"] or (
        tuned["tensors"] != uninterrupted["sparcl-derpp-75"]["tensors"]
    )  # the odd knobs round differently, or this test would show nothing
    shutil.rmtree(tmp_path / "cache")
    assert sparcl("run", "--resume", tmp_path / "killed", "--quiet").returncode == 0
    assert everything_that_must_be_identical(tmp_path / "killed") == tuned
    damaged = tmp_path / "killed"
    (damaged / "result.json").unlink()
    (damaged / "tuning.json").write_text('{"conv1": [[99, 1], [0, 1], [1, 1, 1, true]]}')
    refused = sparcl("run", "--resume", damaged, "--quiet")
    assert refused.returncode == 1 and "tuning.json is damaged" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_the_same_seed_gives_the_same_bits_and_another_seed_does_not(tmp_path, uninterrupted):
    for seed in (0, 1):
        sparcl("run", "digits/derpp", *SMALL, "--set", f"seed={seed}", "--out", tmp_path / str(seed), "--quiet")
    assert everything_that_must_be_identical(tmp_path / "0") == uninterrupted["derpp"]
    assert everything_that_must_be_identical(tmp_path / "1")["metrics"] != uninterrupted["derpp"]["metrics"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_keeps_the_work(tmp_path, uninterrupted, number):
    directory = tmp_path / "run"
    stopped = run_until(number.name, 20, "run", "digits/derpp", *SMALL, "--out", directory, "--quiet")
    assert stopped.returncode == 128 + number, stopped.stderr
    assert f"sparcl run --resume {directory}" in stopped.stderr
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
    settings = read_json(directory / "settings.json")  # without its seal: as version 0.1.0 wrote it
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


@pytest.mark.parametrize(
    "change",
    [
        {"position": {"epoch": 99}},
        {"position": {"epoch": 99, "step": 0, "presented": 0}},
        {"position": {"begun": False}},
        {"position": {"snapshots": [{"other": [1.0]}]}},
        {"position": {"task": 99}},
        {"position": {"task": -1}},
        {"position": {"step": 10**30}},
        {"position": {"step": "x"}},
        {"position": {"snapshots": [[["a"], []]]}},
        {"position": {"loss_sum": "much"}},
        {"metrics_length": 10**12},
        {"metrics_length": -5},
        {"metrics_length": 10**30},
        {"seconds": {"train": "long"}},
        {"accuracy": {"class_il": {"rows": [[1]], "untrained": [1]}}},
        {"generators": {"order": {"state": 1}}},
        {"flops": {"layers": []}},
        {"flops": {"flops": {phase: [1] for phase in PHASES}}},
        {"data": "other"},
        {"settings": "other"},
    ],
    ids=str,
)
def test_a_checkpoint_that_was_tampered_with_is_refused_in_one_line(tmp_path, killed_run, change):
    directory = shutil.copytree(killed_run, tmp_path / "run")
    for path in (directory / "checkpoints").iterdir():
        tensors, state = read(path)
        for key, value in change.items():
            state[key] = {**state[key], **value} if isinstance(value, dict) else value
        write(path, tensors, state)
    refuses(directory)


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("order", np.zeros(0, np.int64)),
        ("order", np.full(289, 10**9)),
        ("order", np.zeros(289, np.float32)),
        ("method.buffer.seen", np.array([2**62])),
        ("index.conv2.weight", np.array([3, 2, 1])),
        ("parameters.conv1.weight", np.zeros((1, 1, 3, 3), np.float32)),
        ("updated.conv2.weight", np.array([10**6])),
        ("sparsifier.removal.present", np.ones(5, bool)),
        ("sparsifier.removal.mistakes", np.zeros(5, np.int32)),
        ("sparsifier.born.conv2.weight", np.zeros(3, np.int32)),
    ],
    ids=str,
)
def test_arrays_that_were_tampered_with_are_refused_in_one_line(tmp_path, killed_run, name, tensor):
    refuses(with_array(killed_run, tmp_path / "run", name, lambda _: tensor))


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [("labels", 99, "labels"), ("tasks", 2, "tasks"), ("tasks", -1, "tasks"), ("logits", np.nan, "logits")],
)
def test_a_buffer_with_impossible_values_is_refused_in_one_line(tmp_path, killed_run, name, value, told):
    directory = with_array(
        killed_run, tmp_path / "run", f"method.buffer.{name}", lambda found: np.full_like(found, value)
    )
    refuses(directory, f"the buffer holds .*{told}")


def with_array(run, to, name, change):
    """A copy of a run in whose checkpoints one array is changed."""
    directory = shutil.copytree(run, to)
    for path in (directory / "checkpoints").iterdir():
        tensors, state = read(path)
        write(path, {**tensors, name: change(tensors[name])}, state)
    return directory


def read(path):
    with open(path, "rb") as file:
        return tensor_files.read(file)


def write(path, tensors, state):
    """Sealed as if it were right."""
    with open(path, "wb") as file:
        tensor_files.write(file, tensors, state)


@pytest.fixture(scope="module")
def killed_run(tmp_path_factory):
    directory = tmp_path_factory.mktemp("killed") / "run"
    every_step = ["--set", "checkpoint.minutes=0"]
    run_and_kill("step", 30, "run", "digits/sparcl-derpp-75", *SMALL, *every_step, "--out", directory, "-q")
    return directory


def refuses(directory, reason=""):
    run_directory = RunDirectory.open(directory)
    settings = run_directory.settings()
    stream = load_stream(settings.dataset, order_seed=settings.seed, **vars(settings.data))
    trainer = Trainer(settings, stream, run_directory, Nobody())
    with pytest.raises(SparclError, match=f"does not belong to this run.*{reason}") as caught:
        trainer.run()
    assert "\n" not in str(caught.value)


def test_changed_data_is_noticed(tmp_path):
    photos = tmp_path / "photos"
    for label, name in enumerate(("apple", "pear")):
        (photos / name).mkdir(parents=True)
        for number in range(12):
            Image.new("RGB", (12, 12), (20 * number, 90 * label, 50)).save(photos / name / f"{number}.png")
    directory = tmp_path / "run"
    environment = os.environ | {"SPARCL_CACHE": str(tmp_path / "cache")}
    options = ["--set", f"data.root={photos}", "--set", "data.image_size=8", "--set", "model=convnet", *SMALL[2:]]
    command = [sys.executable, "-c", DRIVER, "step", "2", "run", "folder/er", *options, "--out", str(directory)]
    command += ["--set", "checkpoint.minutes=0", "--set", "batch_size=4", "--quiet"]
    killed = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    Image.new("RGB", (12, 12), "white").save(photos / "pear" / "new.png")
    resumed = sparcl("run", "--resume", directory, env=environment)
    assert resumed.returncode == 1
    assert "the data set has changed since" in resumed.stderr


def test_only_the_last_two_checkpoints_are_kept(tmp_path):
    directory = tmp_path / "run"
    run_and_kill("step", 10, "run", "digits/sgd", *SMALL, "--set", "checkpoint.minutes=0", "--out", directory, "-q")
    assert len(list((directory / "checkpoints").iterdir())) == 2
