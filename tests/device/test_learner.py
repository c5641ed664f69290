"""What a learner does, through Python and the command line."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import small, sparcl, state

import sparcl as package
from sparcl.device import held_out
from sparcl.device.growth import grow, shrink_buffer
from sparcl.device.learner import Learner
from sparcl.device.states import read_sealed
from sparcl.errors import SparclError
from sparcl.graph import build_model
from sparcl.methods.losses import logit_mse


def tensors_of(learner):
    return read_sealed(learner.states.path(learner.states.newest()))[0]


def test_classes_come_one_after_another_and_the_old_ones_stay(tmp_path, digits):
    """The default settings, but for size: after three sessions, one of them of a single class, all are known."""
    learner = package.Learner.create(
        tmp_path / "shop",
        8,
        "none",
        model="convnet",
        width=8,
        epochs=12,
        batch_size=16,
        threads=1,
        pictures={"flip": False},
    )
    train = digits / "train"
    learner.learn({"zero": train / "0", "one": train / "1"})
    learner.learn({"two": train / "2"})
    learned = learner.learn({"three": train / "3"})
    names = ("zero", "one", "two", "three")
    shares = []
    for digit, name in enumerate(names):
        found = learner.predict(digits / "test" / str(digit))
        shares.append(np.mean([prediction.name == name for prediction in found]))
        assert all(np.isclose(sum(prediction.confidences), 1, atol=1e-5) for prediction in found)
    assert min(shares) > 0.6 and np.mean(shares) > 0.8, shares
    entry = learned.entry
    assert entry.new == ["three"] and set(entry.before.held_out) == set(names[:3])
    assert set(entry.after.held_out) == set(names)
    status = learner.status()
    assert [found["name"] for found in status["classes"]] == list(names)
    assert all(found["kept"] and found["held_out"] for found in status["classes"])
    assert status["network"]["outputs"] == 4 and 0.89 < status["network"]["sparsity"] < 0.91


def test_growing_keeps_what_is_known_bit_for_bit():
    graph = build_model("convnet", (3, 8, 8), 2, 4)
    generator = np.random.default_rng(0)
    tensors = {f"parameters.{s.name}": generator.normal(size=s.shape).astype(np.float32) for s in graph.parameters()}
    per_sample = {"images": (6, 3, 8, 8), "labels": (6,), "tasks": (6,), "logits": (6, 2)}
    tensors |= {
        f"method.buffer.{name}": np.arange(np.prod(s)).reshape(s).astype("f4") for name, s in per_sample.items()
    }
    grown = grow(tensors, graph, 5, np.random.default_rng(1))
    bound = 8**-0.5
    for name, tensor in tensors.items():
        same = grown[name][:2] if "classifier" in name else grown[name][:, :2] if "logits" in name else grown[name]
        np.testing.assert_array_equal(same, tensor)
    rows = grown["parameters.classifier.weight"][2:]
    assert rows.shape == (3, 8) and (np.abs(rows) <= bound).all() and len(np.unique(rows)) == rows.size
    assert np.isnan(grown["method.buffer.logits"][:, 2:]).all()
    with pytest.raises(ValueError, match="classifier"):
        grow(grown, graph, 5, np.random.default_rng(1))
    smaller = shrink_buffer(grown, 4, np.random.default_rng(2))
    kept = smaller["method.buffer.labels"].astype(int)
    assert len(set(kept.tolist())) == 4
    np.testing.assert_array_equal(smaller["method.buffer.images"], tensors["method.buffer.images"][kept])


def test_logits_of_classes_that_were_not_known_are_left_out():
    """Against the loss over the remembered entries alone, one sample at a time."""
    generator = np.random.default_rng(0)
    logits, targets = generator.normal(size=(2, 5, 4))
    targets[:3, 2:] = np.nan
    value, gradient = logit_mse(targets)(logits)
    squares = [(logits[i, j] - targets[i, j]) ** 2 for i in range(5) for j in range(4) if i >= 3 or j < 2]
    assert np.isclose(value, np.mean(squares))
    nudged = logits.copy()
    for i, j in ((0, 0), (0, 3), (4, 3)):
        nudged[i, j] += 1e-6
        assert np.isclose((logit_mse(targets)(nudged)[0] - value) / 1e-6, gradient[i, j], atol=1e-4)
        nudged[i, j] -= 1e-6


def test_pictures_of_a_known_class_join_it(tmp_path, photos):
    learner = small(tmp_path / "shop")
    learner.learn(photos.of("0", "1"))
    learned = learner.learn({"1": photos.folder / "7", "2": photos.folder / "2"})
    assert learned.entry.new == ["2"] and set(learned.entry.pictures) == {"1", "2"}
    assert [entry["name"] for entry in learner.status()["classes"]] == ["0", "1", "2"]


def test_what_is_held_out_once_is_never_trained_on(tmp_path, photos):
    learner = small(tmp_path / "shop", pictures={"held_out": 0.3})
    for _ in range(2):  # the same pictures twice
        learner.learn(photos.of("0", "1"))
    tensors = tensors_of(learner)
    held = {image.tobytes() for image in tensors["held_out.images"]}
    assert len(held) == len(tensors["held_out.images"]) > 4
    assert not held & {image.tobytes() for image in tensors["method.buffer.images"]}


@given(st.integers(1, 40), st.floats(0, 0.5), st.integers(1, 5), st.integers(0, 99))
def test_something_of_a_class_is_left_to_learn_from(count, share, most, seed):
    found = np.random.default_rng(seed).integers(0, 2**64, count, np.uint64)
    held = held_out.choose(found, share, most, known=found[:0])
    assert held.sum() <= min(most, count - 1)
    assert held.any() or count < held_out.MIN_PICTURES or share == 0


def test_the_buffer_keeps_to_its_budget_in_memory(tmp_path, photos):
    learner = small(tmp_path / "shop", buffer="0.004MB")
    sizes = []
    for names in (("0", "1"), ("2", "3", "4", "5")):
        learner.learn(photos.of(*names))
        status = learner.status()
        sizes.append(status["buffer"]["kept"])
        assert status["buffer"]["kept"] == status["buffer"]["capacity"]
        assert status["buffer"]["bytes"] <= 4000
    assert sizes[1] < sizes[0]  # logits of six classes take more room than of two


def test_undo_goes_back_and_learning_again_gives_the_same(tmp_path, photos):
    learner = small(tmp_path / "shop", undo_steps=2)
    states = [state(learner)]
    for name in ("0", "1", "2", "3"):
        learner.learn(photos.of(name))
        states.append(state(learner))
    for wanted in (states[3], states[2]):
        learner.undo()
        assert state(learner) == wanted
    with pytest.raises(SparclError, match="can undo 2 learning sessions"):
        learner.undo()
    learner.learn(photos.of("2"))
    assert state(learner) == states[3]


def test_pictures_in_memory_are_the_same_as_from_files(tmp_path, photos):
    from PIL import Image

    learners = [small(tmp_path / name) for name in ("files", "arrays")]
    learners[0].learn(photos.of("0", "1"))
    paths = {name: sorted(folder.iterdir()) for name, folder in photos.of("0", "1").items()}
    learners[1].learn({"0": [np.asarray(Image.open(path)) for path in paths["0"]], "1": paths["1"]})
    assert state(learners[0]) == state(learners[1])
    answers = learners[0].predict([Image.open(paths["0"][0]), str(paths["0"][0])])
    assert answers[0].classes == answers[1].classes
    assert learners[0].predict([]) == []
    with pytest.raises(SparclError, match="is no picture"):
        learners[0].predict([3.5])


def test_what_cannot_be_learned_is_refused_in_one_line(tmp_path, photos):
    shop = tmp_path / "shop"
    learner = small(shop)
    empty = tmp_path / "empty"
    empty.mkdir()
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "notes.txt").write_text("no picture")
    for classes, message in (
        ({}, "nothing to learn"),
        ({"a": empty}, "holds no pictures"),
        ({"a": tmp_path / "none"}, "does not exist"),
        ({"a": tmp_path / "notes"}, "no readable picture of 'a'. The first problem"),
        ({"a": photos.folder}, "holds folders, not pictures"),
        ({"a\nb": photos.folder / "0"}, "cannot be the name"),
        ({"a": photos.folder / "0" / "00000.png"}, "1 picture cannot be learned from"),
    ):
        with pytest.raises(SparclError, match=message) as caught:
            learner.learn(classes)
        assert "\n" not in str(caught.value)
    for options in ({"minutes": 0}, {"minutes": float("nan")}, {"epochs": 0}):
        with pytest.raises(SparclError):
            learner.learn(photos.of("0"), **options)
    with pytest.raises(SparclError, match="learned nothing yet"):
        learner.predict(photos.folder / "0")
    with pytest.raises(SparclError, match="nothing to undo"):
        learner.undo()
    with pytest.raises(SparclError, match="nothing to resume"):
        learner.resume()
    assert state(learner) == {"number": 0} and not (shop / "learning").exists()
    for directory, message in ((shop, "already holds a learner"), (photos.folder, "not an empty directory")):
        with pytest.raises(SparclError, match=message):
            Learner.create(directory)
    for settings, message in (
        ({"method": {"name": "ewc"}}, "cannot use ewc"),
        ({"sparsifier": {"name": "rigl"}}, "cannot use rigl"),
        ({"buffer": "many"}, "is not a size"),
        ({"buffer": "0"}, "without a buffer"),
        ({"widht": 3}, "did you mean 'width'"),
        ({"backend": "torch"}, "no setting 'backend'"),
        ({"data": {"root": "photos"}}, "no setting 'data'"),
        ({"width": 1025}, "at most 1024"),
        ({"buffer": "1000000000000000000"}, "at most 10000000"),
        ({"pictures": {"mean": [0, 0, 1e9], "std": [1, 1, 1]}}, "less than"),
        ({"pictures": {"mean": [0, 0, 0], "std": [1, 1, 1e-9]}}, "more than"),
    ):
        with pytest.raises(SparclError, match=message):
            Learner.create(tmp_path / "other", backbone="none", **settings)
    assert not (tmp_path / "other").exists()


def test_ctrl_c_keeps_the_work_and_predicting_works_meanwhile(tmp_path, photos):
    shop = tmp_path / "shop"
    learner = small(shop, checkpoint={"minutes": 0})
    learner.learn(photos.of("0", "1"))
    before = state(learner)
    command = [sys.executable, "-m", "sparcl.cli.main", "learn", shop, photos.folder / "2", "--epochs", "2000"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not list((shop / "learning").glob("checkpoints/*.safetensors")):
        os.sched_yield()
    answer = sparcl("predict", shop, photos.folder / "0" / "00003.png", "--json", "--top", "2")
    with pytest.raises(SparclError, match="Another process is working"):
        learner.learn(photos.of("3"))
    assert learner.status()["learning"] and not learner.status()["interrupted"]
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT, errors
    assert f"sparcl learn {shop} --resume" in errors and "as it was before" in errors
    assert set(json.loads(answer.stdout)["classes"]) == {"0", "1"}
    assert state(learner) == before
    with pytest.raises(SparclError, match=r"resume\(\), or drop it with undo\(\)"):
        learner.learn(photos.of("3"))
    assert "A learning session was interrupted" in sparcl("status", shop).stdout
    assert "Dropped the learning session" in learner.undo()
    assert state(learner) == before and not (shop / "learning").exists()


def test_odd_requests_on_the_command_line(tmp_path, photos):
    shop, empty = tmp_path / "shop", tmp_path / "empty"
    small(shop).learn(photos.of("0") | {"ü": photos.folder / "1"})
    empty.mkdir()
    for arguments, words in (
        (("predict", shop, empty), "there are no pictures"),
        (("predict", tmp_path / "fruti.sparcl", empty), "sparcl export LEARNER FILE"),
        (("predict", shop, empty, "--top", "0"), "at least 1"),
        (("learn", shop, "pear="), "is not a folder"),
        (("export", shop, shop / "states" / "0000000001.safetensors"), "does not end with .sparcl"),
    ):
        finished = sparcl(*arguments)
        assert finished.returncode and words in finished.stderr and "Traceback" not in finished.stderr
    ascii_only = sparcl("status", shop, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert ascii_only.returncode == 0 and "\\xfc" in ascii_only.stdout
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "sparcl.cli.main", "status", shop]
        finished = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert finished.returncode == 1 and finished.stderr.count("\n") == 1 and "No space left" in finished.stderr


def test_an_open_learner_notices_what_was_learned_and_undone_since(tmp_path, photos):
    """It keeps its state open between predictions, and another process may change the learner."""
    learner = small(tmp_path / "shop")
    learner.learn(photos.of("0", "1"))
    other, picture = Learner.open(learner.directory), next((photos.folder / "0").iterdir())
    before = other.predict(picture)[0]
    kept = other._opened
    assert other.predict(picture)[0].confidences == before.confidences
    assert other._opened is kept  # the state was not read again
    learner.learn(photos.of("2"))
    assert set(other.predict(picture)[0].classes) == {"0", "1", "2"}
    learner.undo()
    assert other.predict(picture)[0].confidences == before.confidences
