"""Learners that start from weights: they keep a copy, and need the file no more."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from networks import ResNet18, trained
from PIL import Image
from safetensors.numpy import load_file

import sparcl
from sparcl.device.learner import Learner
from sparcl.errors import SparclError
from sparcl.learning.loop import Stopped

SMALL = {
    "backbone": "none",
    "image_size": 8,
    "model": "resnet18",
    "width": 4,
    "epochs": 2,
    "batch_size": 8,
    "buffer_size": 20,
    "threads": 1,
    "sparsifier": {"stage_epochs": 1},
}


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder, chance = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for number, name in enumerate(("dark", "bright", "odd")):
        (folder / name).mkdir()
        for count in range(12):
            pixels = chance.integers(80 * number, 80 * number + 90, (8, 8, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{count}.png")
    return folder


@pytest.fixture
def network():
    return trained(ResNet18())


@pytest.fixture
def file(tmp_path, network):
    torch.save(network.state_dict(), tmp_path / "weights.pt")
    return tmp_path / "weights.pt"


def of(photos, *names):
    return {name: photos / name for name in names}


def newest(learner):
    tensors = load_file(learner.states.path(learner.states.newest()))
    return {name: (array.dtype, array.tobytes()) for name, array in tensors.items()}


def test_the_first_session_begins_with_the_weights(tmp_path, file, network, photos):
    """Frozen by a rate of zero, they are still there after it; the file need not be."""
    learner = sparcl.Learner.create(
        tmp_path / "shop", **SMALL, weights=file, sparsity=0.0, method={"learning_rate": 1e-30}
    )
    file.unlink()
    learner.learn(of(photos, "dark", "bright"))
    tensors = load_file(learner.states.path(1))
    theirs = network.state_dict()
    # SparCL's gradient masks store weights with every position active.
    assert np.array_equal(tensors["parameters.stem.conv.weight"], theirs["conv1.weight"].numpy())
    name = "stage3.block1.conv2.weight"
    assert np.array_equal(tensors[f"parameters.{name}"].ravel(), theirs["layer3.0.conv2.weight"].numpy().ravel())
    assert tensors["parameters.classifier.weight"].shape == (2, 32)
    assert learner.status()["weights"]["file"] == str(file)


def test_the_first_masks_keep_the_largest_weights(tmp_path, file, network, photos):
    learner = Learner.create(tmp_path / "shop", **{**SMALL, "epochs": 1}, weights=file, sparsity=0.5)
    assert learner.settings.training.sparsifier.options["initial_mask"] == "magnitude"
    learner.learn(of(photos, "dark", "bright"))
    index = load_file(learner.states.path(1))["index.stage2.block2.conv1.weight"]
    weight = np.abs(network.layer2[1].conv1.weight.detach().numpy().ravel())
    largest = np.argsort(-weight)[: len(index)]
    assert len(index) == weight.size // 2 and np.isin(index, largest).mean() > 0.95


def test_sessions_are_the_same_with_and_without_the_file_interrupted_or_undone(tmp_path, file, photos):
    whole = Learner.create(tmp_path / "whole", **SMALL, weights=file)
    whole.learn(of(photos, "dark", "bright"))
    interrupted = Learner.create(tmp_path / "interrupted", **SMALL, weights=file)
    file.unlink()
    shutil.move(tmp_path / "interrupted", tmp_path / "moved")
    interrupted = Learner.open(tmp_path / "moved")

    class StopAfter:
        left = 3

        def stepped(self, *_):
            self.left -= 1
            if not self.left:
                interrupted.request_stop()

        def noted(self, *_): ...
        def started(self, *_): ...

    with pytest.raises(Stopped):
        interrupted.learn(of(photos, "dark", "bright"), listener=StopAfter())
    interrupted.resume()
    assert newest(interrupted) == newest(whole)
    interrupted.undo()
    interrupted.learn(of(photos, "dark", "bright"))
    assert newest(interrupted) == newest(whole)
    interrupted.learn(of(photos, "odd"))
    whole.learn(of(photos, "odd"))
    assert newest(interrupted) == newest(whole)


def test_a_learner_starts_from_another_one(tmp_path, file, photos):
    first = Learner.create(tmp_path / "first", **SMALL, weights=file)
    first.learn(of(photos, "dark", "bright"))
    Learner.create(tmp_path / "second", **SMALL, weights=tmp_path / "first")
    before = load_file(first.states.path(1))
    initial = load_file(tmp_path / "second" / "states" / "initial.safetensors")
    assert np.array_equal(initial["parameters.stem.conv.weight"], before["parameters.stem.conv.weight"])
    assert np.array_equal(initial["statistics.stem.bn.running_var"], before["statistics.stem.bn.running_var"])
    name = "stage4.block2.conv2.weight"
    full = np.zeros(initial[f"parameters.{name}"].size, np.float32)
    full[before[f"index.{name}"]] = before[f"parameters.{name}"]
    assert np.array_equal(initial[f"parameters.{name}"].ravel(), full)
    assert not any("classifier" in key or "index." in key for key in initial)


def test_what_cannot_work_fails_before_anything_is_written(tmp_path, file):
    for changes, said in (
        ({"width": 8}, r"conv1.weight has shape 4x3x3x3, and stem.conv.weight must have 8x3x3x3"),
        ({"model": "convnet"}, r"it lacks conv2.weight"),
        ({"weights": tmp_path / "absent"}, "absent could not be read: No such file"),
    ):
        with pytest.raises(SparclError, match=said):
            Learner.create(tmp_path / "shop", **{**SMALL, "weights": file, **changes})
        assert not (tmp_path / "shop").exists()


def test_a_copy_that_is_damaged_or_gone_is_said_in_one_line(tmp_path, file, photos):
    learner = Learner.create(tmp_path / "shop", **SMALL, weights=file)
    copy = tmp_path / "shop" / "states" / "initial.safetensors"
    whole = copy.read_bytes()
    for content in (whole[:-1] + bytes([whole[-1] ^ 1]), whole[:1000], None):
        copy.unlink() if content is None else copy.write_bytes(content)
        with pytest.raises(SparclError, match=r"initial.safetensors is damaged or missing: .* Make a new learner\.$"):
            learner.learn(of(photos, "dark", "bright"))
        learner.undo()


def test_a_new_learner_in_the_place_of_one_that_was_killed(tmp_path, file):
    """Killed between the copy of the weights and the settings."""
    Learner.create(tmp_path / "shop", **SMALL, weights=file)
    (tmp_path / "shop" / "settings.json").unlink()
    Learner.create(tmp_path / "shop", **SMALL)
    assert not list((tmp_path / "shop" / "states").iterdir())
    (tmp_path / "shop" / "settings.json").unlink()
    (tmp_path / "shop" / "states" / "mine.txt").touch()
    with pytest.raises(SparclError, match="not an empty directory"):
        Learner.create(tmp_path / "shop", **SMALL)


def test_the_command_says_what_it_takes_over(tmp_path, file):
    program = [sys.executable, "-m", "sparcl.cli.main"]
    options = ["--backbone", "none", "--image-size", "8", "--width", "4", "--weights", "weights.pt"]
    made = subprocess.run([*program, "new", "shop", *options], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert f"Weights of {file}: 100 tensors were loaded by the names of torchvision's ResNet." in made.stdout
    assert f"Weights of {file}: classifier keeps its initial values." in made.stdout
    shown = subprocess.run([*program, "status", "shop"], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert f"weights    started from {file}" in shown.stdout
    stored = json.loads((tmp_path / "shop" / "settings.json").read_text())["training"]["weights"]
    assert stored == {"file": str(file), "digest": sparcl.load_weights(file).digest}
