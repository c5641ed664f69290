"""Errors of the library speak of settings and arguments; options of commands are added by the command line."""

import ast
import re
from pathlib import Path

import pytest

from sparcl.cli.advice import advised
from sparcl.errors import SparclError, UnfinishedError

SOURCE = Path(__file__).parents[1] / "src" / "sparcl"
OPTION = re.compile(r"(?<![\w-])--[a-z]")


def texts_of_errors(file: Path):
    """The literal parts of every error that is made."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.endswith("Error"):
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.value


@pytest.mark.parametrize("room", sorted(path.parent.name for path in SOURCE.glob("*/__init__.py")))
def test_no_error_below_the_command_line_names_an_option(room):
    found = [text for file in (SOURCE / room).rglob("*.py") for text in texts_of_errors(file)]
    if room == "cli":  # where they do: otherwise this test sees nothing
        assert any(OPTION.search(text) for text in found)
    else:
        assert not [text for text in found if OPTION.search(text)]


def test_the_command_line_says_how_to_continue():
    assert advised(SparclError("Too small.")) == "Too small."
    run = UnfinishedError("It is not finished.", "run", Path("my runs/er"))
    assert str(run) == "It is not finished. Continue it."
    assert advised(run) == "It is not finished. Continue it with: sparcl run --resume 'my runs/er'"
    session = UnfinishedError("It was interrupted.", "session", Path("shop"))
    assert str(session) == "It was interrupted. Continue it with resume(), or drop it with undo()."
    assert advised(session) == (
        "It was interrupted. Continue it: sparcl learn shop --resume; or drop it: sparcl undo shop"
    )
