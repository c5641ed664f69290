"""Evaluating learners from scratch and model files: the same answers as predicting, counted picture by picture."""

import json
import shutil
from collections import Counter

import numpy as np
import pytest
from small import small, sparcl

from sparcl import SparclError


@pytest.fixture
def shop(tmp_path, photos):
    learner = small(tmp_path / "shop")
    learner.learn(photos.of("0", "1", "2"))
    return learner


@pytest.fixture
def test_photos(tmp_path, digits):
    """Twelve new pictures of three classes, one of which was never learned."""
    for name in ("0", "1", "7"):
        (tmp_path / "test" / name).mkdir(parents=True)
        for file in sorted((digits / "test" / name).iterdir())[:12]:
            shutil.copy(file, tmp_path / "test" / name)
    return tmp_path / "test"


def answers(learner, folder):
    """By class and file, one at a time."""
    files = [(name, file) for name in ("0", "1", "7") for file in sorted((folder / name).iterdir())]
    return [(name, str(file), learner.predict(file)[0]) for name, file in files]


def test_it_counts_what_predicting_says(shop, test_photos):
    said = answers(shop, test_photos)
    found = shop.evaluate({name: test_photos / name for name in ("0", "1", "7")})
    known = [(truth, answer) for truth, _, answer in said if truth != "7"]
    assert found.accuracy == pytest.approx(100 * np.mean([truth == answer.name for truth, answer in known]))
    for name in ("0", "1"):
        of_class = [answer.name == name for truth, answer in known if truth == name]
        assert found.accuracy_by_class[name] == pytest.approx(100 * np.mean(of_class))
    assert set(found.accuracy_by_class) == {"0", "1"}
    counts = Counter((truth, answer.name) for truth, _, answer in said)
    assert {(t, name): n for t, row in found.confusion.items() for name, n in row.items()} == counts
    wrong = sorted((-answer.confidence, file) for truth, file, answer in said if answer.name != truth)
    assert [mistake.picture for mistake in found.mistakes] == [file for _, file in wrong]
    scores = [[a.confidence for t, _, a in said if (t == "7") == strange] for strange in (False, True)]
    pairs = [(k > s) + 0.5 * (k == s) for k in scores[0] for s in scores[1]]
    assert found.auroc == pytest.approx(np.mean(pairs), abs=1e-3)  # many at once round differently in the last bits
    assert (found.called_unknown, found.never_learned_called_unknown, found.learned) == (0, 0, 0)


def test_pictures_in_memory_and_learned_ones(shop, photos):
    found = shop.evaluate(photos.of("0"))
    assert 0 < found.learned <= 24  # as many as the buffer holds, and no held-out ones
    picture = np.zeros((8, 8, 3), np.uint8)
    found = shop.evaluate({"0": [picture, picture]})
    assert [answer.picture for answer in found.answers] == ["picture 1", "picture 2"] and found.auroc is None


def test_the_command_reads_a_folder_of_folders_and_names_what_it_skips(shop, test_photos, tmp_path):
    (test_photos / "0" / "damaged.png").write_bytes(b"\x89PNG\r\n\x1a\n broken")
    (test_photos / "notes.txt").write_text("not a picture")
    model = tmp_path / "model.sparcl"
    assert sparcl("export", shop.directory, model).returncode == 0
    results = []
    for source in (shop.directory, model):
        finished = sparcl("evaluate", source, test_photos, "--json")
        assert finished.returncode == 0, finished.stderr
        results.append(json.loads(finished.stdout))
        (skipped,) = results[-1]["skipped_pictures"]
        assert "damaged.png" in skipped
        assert results[-1]["never_learned"]["classes"] == ["7"] and results[-1]["pictures"] == 36
    assert results[0]["confusion"] == results[1]["confusion"]
    shown = sparcl("evaluate", shop.directory, f"1={test_photos / '0'}", test_photos / "7").stdout
    assert "damaged.png" in shown and "7            12  never learned" in shown
    assert sparcl("evaluate", shop.directory, test_photos / "1").returncode == 0


def test_nothing_to_evaluate_gets_one_line(shop, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(SparclError, match="holds no pictures"):
        shop.evaluate({"0": tmp_path / "empty"})
    (tmp_path / "empty" / "text.jpg").write_text("no picture")
    with pytest.raises(SparclError, match=r"no readable picture to evaluate with\. The first problem: .*text\.jpg"):
        shop.evaluate({"0": tmp_path / "empty"})
    with pytest.raises(SparclError, match="no pictures to evaluate with"):
        shop.evaluate({})
