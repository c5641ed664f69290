"""What a learner learns class by class is, to the last bit, what `sparcl run` learns from the same pictures."""

import json
from pathlib import Path

import numpy as np
from small import small, sparcl, state
from typer.testing import CliRunner

from sparcl.cli.app import app
from sparcl.data import load_stream
from sparcl.device.learner import Learner
from sparcl.learning.run_directory import RunDirectory


def in_process(*arguments):
    """A command line, without starting a process for it."""
    finished = CliRunner().invoke(app, list(map(str, arguments)))
    assert finished.exit_code == 0, finished.output
    return finished.stdout


def test_tasks_one_by_one_give_the_same_bits_as_a_run(tmp_path, digits, monkeypatch):
    monkeypatch.setenv("SPARCL_CACHE", str(tmp_path / "cache"))
    settings = [
        *("model=convnet", "width=4", "epochs=2", "batch_size=16", "buffer_size=40", "sparsifier.stage_epochs=1"),
        *("method.learning_rate=0.1", "method.beta=1.0", "method.one_pass=true", "threads=1", "seed=3"),
    ]
    options = [part for setting in settings for part in ("--set", setting)]
    data = ["--set", f"data.root={digits}", "--set", "data.image_size=8", "--set", "data.tasks=3"]
    ran = in_process("run", "folder/sparcl-derpp-90", *options, *data, "--out", tmp_path / "run", "--json")
    scale = load_stream("folder", root=digits, image_size=8).augmentation
    own = [f"pictures.mean={list(scale.mean)}", f"pictures.std={list(scale.std)}"]
    own = [part for setting in own for part in ("--set", setting)]
    in_process(
        "new",
        tmp_path / "shop",
        "--backbone",
        "none",
        "--image-size",
        "8",
        "--classes",
        "6",
        "--held-out",
        "0",
        *options,
        *own,
    )
    for task in ("01", "23", "45"):
        in_process("learn", tmp_path / "shop", *(digits / "train" / digit for digit in task), "--quiet")

    of_run, _ = RunDirectory(tmp_path / "run").load_checkpoint()
    of_learner = state(Learner.open(tmp_path / "shop"))["tensors"]
    compared = [name for name in of_run if name.startswith(("parameters.", "statistics.", "index.", "method."))]
    assert len(compared) == 30
    for name in compared:
        tensor = np.ascontiguousarray(of_run[name])
        assert of_learner[name] == (str(tensor.dtype), tensor.shape, tensor.tobytes()), name

    result = json.loads(ran)["result"]["class_il"]["rows"][-1]
    answers = sparcl("predict", tmp_path / "shop", *(digits / "test" / digit for digit in "012345"), "--json")
    right = {digit: [] for digit in "012345"}
    for line in answers.stdout.splitlines():
        answer = json.loads(line)
        digit = Path(answer["picture"]).parts[-2]
        right[digit].append(answer["class"] == digit)
    for task, accuracy in zip(("01", "23", "45"), result, strict=True):
        judged = right[task[0]] + right[task[1]]
        assert np.isclose(100 * np.mean(judged), accuracy)


def test_the_same_pictures_and_seed_give_the_same_bits(tmp_path, photos):
    learners = [small(tmp_path / name) for name in ("one", "two")]
    for learner in learners:
        learner.learn(photos.of("0", "1"))
        learner.learn(photos.of("2"))
    assert state(learners[0]) == state(learners[1])
