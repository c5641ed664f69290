"""Learners, runs and model files that older versions have made still open, predict and continue.

`fixtures/learner-0.1.0` was made by version 0.1.0: it knows 0, 1 and 2, learned in two sessions, and was interrupted
after three steps of a third one, which was to learn 3. `runs-0.1.0` has interrupted runs, with the metrics that version
0.1.0 ended with; `models-0.1.0` has model files, with the logits that it predicted.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import sparcl
from sparcl.device.learner import Learner

FIXTURES = Path(__file__).parent / "fixtures"
FIXTURE, RUNS, MODELS = FIXTURES / "learner-0.1.0", FIXTURES / "runs-0.1.0", FIXTURES / "models-0.1.0"
# With the instructions that every x86-64 processor has, the metrics of a run are the same on all of them.
PLAIN_X86 = {
    "SPARCL_ISA": "v2",
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
    "OPENBLAS_CORETYPE": "Nehalem",
}
IS_X86 = platform.machine() == "x86_64"


@pytest.fixture
def old(tmp_path):
    assert "seal" not in json.loads((FIXTURE / "settings.json").read_text())
    return Learner.open(shutil.copytree(FIXTURE, tmp_path / "shop"))


def names(learner):
    return [entry["name"] for entry in learner.status()["classes"]]


def test_it_opens_and_predicts(old, photos):
    status = old.status()
    assert status["interrupted"] and status["resumable"] and status["learns"] == 2
    assert names(old) == ["0", "1", "2"]
    assert [set(answer.classes) for answer in old.predict(photos.folder / "0")] == 24 * [{"0", "1", "2"}]


def test_its_interrupted_session_is_resumed(old):
    learned = old.resume()
    assert learned.entry.new == ["3"] and learned.entry.epochs == 3
    assert names(old) == ["0", "1", "2", "3"] and not old.status()["interrupted"]
    assert old.undo().startswith("Undone learning session 3")


def test_its_sessions_are_undone_one_by_one(old, photos):
    assert old.undo().startswith("Dropped the learning session that was interrupted")
    assert names(old) == ["0", "1", "2"]
    assert old.undo().startswith("Undone learning session 2")
    assert names(old) == ["0", "1"]
    old.learn(photos.of("5"))
    assert names(old) == ["0", "1", "5"]


def test_what_it_left_while_it_read_pictures_is_an_interrupted_session(old):
    for name in ("task.safetensors", "checkpoints"):
        path = old.directory / "learning" / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert old.status()["interrupted"] and not old.status()["resumable"]
    assert "while its pictures were being read" in old.undo()
    assert names(old) == ["0", "1", "2"]


@pytest.mark.parametrize("precision", ["float32", "float16", "int8"])
def test_its_model_files_predict_the_same_logits(precision):
    """A ResNet-18, two channels wide, 90% sparse; version 0.1.0 also said what it predicts."""
    said, model = load_file(MODELS / "predicted.safetensors"), sparcl.load(MODELS / f"{precision}.sparcl")
    assert model.precision == precision and model.classes == ("0", "1", "2", "3")
    np.testing.assert_allclose(model.predict(said["images"]), said[precision], rtol=1e-5, atol=2e-6)
    np.testing.assert_allclose(model.predict(said["images"][0]), said[f"{precision}.single"], rtol=1e-5, atol=2e-6)


def resume(directory):
    command = [sys.executable, "-m", "sparcl.cli.main", "run", "--resume", str(directory), "--quiet"]
    environment = os.environ | (PLAIN_X86 if IS_X86 else {})
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.parametrize("name", ["masks", "removal"])
def test_its_runs_are_resumed(name, tmp_path):
    """masks: interrupted before weights move. removal: in the last epoch, after samples were removed.

    (Earlier the two versions differ on purpose: the samples that removal leaves keep their order now.)
    """
    directory = shutil.copytree(RUNS / name, tmp_path / "run")
    resumed = resume(directory)
    assert resumed.returncode == 0, resumed.stderr
    before, at_the_end = (RUNS / name / "metrics.jsonl").read_bytes(), (RUNS / f"{name}-end.jsonl").read_bytes()
    metrics = (directory / "metrics.jsonl").read_bytes()
    assert metrics.startswith(before) and metrics.count(b"\n") == at_the_end.count(b"\n") > before.count(b"\n")
    if IS_X86:
        assert metrics == at_the_end


@pytest.mark.parametrize("number", [np.nan, -1.0, np.inf])
def test_what_its_runs_counted_is_checked(number, tmp_path):
    directory = shutil.copytree(RUNS / "masks", tmp_path / "run")
    (checkpoint,) = (directory / "checkpoints").iterdir()
    with safe_open(checkpoint, "numpy") as file:
        metadata = file.metadata()
    tensors = load_file(checkpoint)
    tensors["sparsifier.passes"][0] = number
    save_file(tensors, checkpoint, metadata)
    refused = resume(directory)
    assert refused.returncode == 1 and len(refused.stderr.splitlines()) == 1
    assert "what was counted of the stage makes no sense" in refused.stderr
