"""The page about a learner, taken apart again."""

import base64
import io
import sys
from pathlib import Path

import numpy as np
import pytest
from drawings import COLOURS, drawn, make
from PIL import Image

from sparcl.instant.page.assemble import learner_page

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from parsed import Parsed

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Three classes; a pear among the plums, an apple twice, an empty lemon."""
    learner = make(tmp_path_factory.mktemp("page") / "<b>shop")
    pears, plums = drawn("pears", 12), drawn("plums", 12)
    again = drawn("apples", 1)[0].copy()
    again[0, 0] += 3
    learner.learn({"apples": [*drawn("apples", 12), again], "pears": pears[:11]})
    empty = np.full((32, 32, 3), 120, np.uint8)
    learner.learn({"plums": [*plums, pears[11]], "<i>lemons": [*drawn("lemons", 9), empty]})
    return learner


@pytest.fixture(scope="module")
def text(shop):
    return learner_page(shop.directory, shop.state())


def test_every_class_is_shown_with_its_accuracy_and_pictures(shop, text):
    found, state = Parsed(text), shop.state()
    for name, (right, count) in zip(state.about.classes, state.head.calibration.right, strict=True):
        assert f"{count} pictures · {100 * right / count:.1f}% right" in found.text and name in found.text
    thumbs = found.with_class("thumb")
    assert len(thumbs) >= 4 * 8 and all(one["src"].startswith("data:image/jpeg;base64,") for one in thumbs)
    content = base64.b64decode(thumbs[0]["src"].partition(",")[2])
    with Image.open(io.BytesIO(content)) as picture:
        assert picture.size == (32, 32)
    digests = {f"{int(digest):016x}" for digest in state.kept.digests}
    assert all(one["title"].split("picture ")[1].split(":")[0] in digests for one in thumbs)


def test_everything_that_was_found_is_named_with_class_digest_and_reason(shop, text):
    examination, kept = shop.status()["examination"], shop.state().kept
    found = Parsed(text)
    assert {one["kind"] for one in examination["findings"]} >= {"duplicate", "empty"}
    rows = {row[0]: row[1:] for row in found.cells if len(row) == 4}
    for one in examination["findings"]:
        assert rows[str(one["number"])] == [one["class"], one["picture"], one["reason"]]
        assert any(attributes.get("id") == f"finding-{one['number']}" for _, attributes in found.elements)
        assert int(one["picture"], 16) in set(map(int, kept.digests))


def test_confusion_counts_pictures_left_out(shop, text):
    confusion = shop.state().examined().left_out.confusion
    right = [right for right, _ in shop.state().head.calibration.right]
    assert list(np.diagonal(confusion)) == right
    wrong = [(i, j) for i, j in np.argwhere(confusion) if i != j]
    names = shop.state().about.classes
    for i, j in wrong[:1]:
        assert f"{confusion[i, j]} of {confusion[i].sum()} {names[i]} taken for {names[j]}" in Parsed(text).text


def test_history_and_markup(shop, text):
    found = Parsed(text)
    assert [row[0] for row in found.cells if len(row) == 6][1:] == ["1", "2"]
    assert not any(tag in ("b", "i") and "lemons" in str(attributes) for tag, attributes in found.elements)
    assert "<i>lemons" not in text and "&lt;i&gt;lemons" in text and "What <b>shop knows" in found.text
    outside = [value for _, attributes in found.elements for value in attributes.values() if "http" in value]
    assert all(value == "Content-Security-Policy" or "http-equiv" in value for value in outside) or not outside


def test_an_empty_learner_and_one_of_a_single_class_have_a_page(tmp_path):
    learner = make(tmp_path / "empty")
    assert "It knows no class yet" in learner_page(learner.directory, learner.state())
    learner.learn({"apples": drawn("apples", 1)})
    page = Parsed(learner_page(learner.directory, learner.state()))
    assert "1 picture" in page.text and "too few pictures to tell" in page.text


def test_many_classes_stay_one_page(tmp_path, monkeypatch):
    monkeypatch.setattr("sparcl.instant.page.classes.MAX_PICTURES", 6)
    monkeypatch.setattr("sparcl.instant.page.classes.MAX_CLASSES", 3)
    learner = make(tmp_path / "many")
    learner.learn({name: drawn(name, 4) for name in COLOURS})
    found = Parsed(learner_page(learner.directory, learner.state()))
    assert "The first 3 of 4 classes are shown" in found.text
