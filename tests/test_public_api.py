"""What `import sparcl` offers: typed for those who check types, and explained by help(sparcl)."""

import inspect
import pydoc
import re
import subprocess
import sys

import pytest

import sparcl

PROGRAM = """
from pathlib import Path
from typing import assert_type
import numpy as np
from numpy.typing import NDArray
import sparcl

learner = sparcl.Learner.create("shop", backbone="none", image_size=32, width=8, buffer="20MB")
assert_type(learner, sparcl.Learner)
assert_type(sparcl.Learner.open(Path("shop")), sparcl.Learner)
learned = learner.learn({"apples": "photos/apples", "pears": [np.zeros((8, 8, 3), np.uint8)]}, minutes=5)
assert_type(learned, sparcl.LearnResult)
assert_type(learned.cautions, tuple[str, ...])
assert_type(learner.resume(), sparcl.LearnResult)
assert_type(learner.predict("image.jpg"), list[sparcl.Prediction])
assert_type(learner.predict(["image.jpg"])[0].name, str)
assert_type(learner.predict(np.zeros((1, 8, 8, 3), np.uint8))[0].confidence, float)
assert_type(learner.undo(), str)
model = sparcl.load(Path("fruit.sparcl"))
assert_type(model, sparcl.Model)
assert_type(model.predict(np.zeros((1, 3, 8, 8), np.uint8)), NDArray[np.float32])
assert_type(sparcl.load("fruit.sparcl").classes, tuple[str, ...])
assert_type(sparcl.from_torch(None, (3, 32, 32)), tuple[sparcl.Graph, sparcl.Parameters])
assert_type(sparcl.load_weights("resnet18.pt"), sparcl.Weights)
assert_type(sparcl.__version__, str)
try:
    learner.undo()
except sparcl.SparclError as error:
    print(error)
"""

MISTAKES = {
    "sparcl.Lerner": "has no attribute",
    "sparcl.load(3)": "incompatible type",
    'sparcl.load("fruit.sparcl").classes[0] + 1': "Unsupported operand",
    'sparcl.Learner.open("shop").learn({"apples": 3})': "incompatible type",
    'sparcl.Learner.open("shop").learn({}, minutes="five")': "incompatible type",
    "assert_type(sparcl.load, int)": "Expression is of type",
    "sparcl.from_torch(None, (3, 32))": "incompatible type",
}


def test_a_type_checker_knows_every_type_and_finds_exactly_the_mistakes(tmp_path):
    """Each mistake is on a line of its own."""
    program = (PROGRAM + "".join(f"{mistake}\n" for mistake in MISTAKES)).splitlines()
    (tmp_path / "program.py").write_text("\n".join(program))
    # Reading all of torch takes minutes, and a module of the user's own is no part of what is promised.
    (tmp_path / "mypy.ini").write_text("[mypy-torch.*]\nfollow_imports = skip\n")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", "mypy.ini", "program.py"]
    found = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False).stdout
    errors = re.findall(r"^program\.py:(\d+): (.*)$", found, flags=re.MULTILINE)
    lines = {program[int(number) - 1]: text for number, text in errors}
    assert list(lines) == list(MISTAKES), found
    for line, text in lines.items():
        assert MISTAKES[line] in text


@pytest.mark.parametrize("name", [name for name in sparcl.__all__ if name != "__version__"])
def test_everything_public_is_there_and_says_what_it_is(name):
    value = getattr(sparcl, name)
    assert value.__name__ == name and inspect.getdoc(value)
    if value in (sparcl.Graph, sparcl.Parameters):
        return  # what they hold is for those who write a method or a backend
    members = inspect.getmembers(value, lambda one: inspect.isfunction(one) or inspect.ismethod(one))
    undocumented = [key for key, member in members if not key.startswith("_") and not inspect.getdoc(member)]
    assert not undocumented, f"{name} has methods that say nothing: {undocumented}"


def test_help_shows_all_of_it():
    text = pydoc.render_doc(sparcl, renderer=pydoc.plaintext)
    for expected in ("class Learner", "class Model", "class Prediction", "from_torch(", "load(", "sparcl export"):
        assert expected in text


def test_asking_for_nothing_loads_nothing():
    code = "import sys, sparcl; dir(sparcl); print([n for n in sys.modules if n.startswith(('sparcl.', 'numpy'))])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "['sparcl.errors']"
    with pytest.raises(AttributeError, match="no attribute 'Lerner'"):
        sparcl.Lerner  # noqa: B018 (to ask is to load)
