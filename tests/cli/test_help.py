"""Help and usage errors, for every command there is."""

import re

import pytest
import typer
from typer.testing import CliRunner

from sparcl.cli.app import app


def every_command(command=None, path=()):
    command = command or typer.main.get_command(app)
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from every_command(inner, (*path, name))


# `predict` has a parser of its own, which is Python's.
COMMANDS = {path: command for path, command in every_command() if path != ("predict",)}


def letters(text):
    """Without spaces, line breaks and frames: lines may break anywhere."""
    return re.sub(r"[│╭╮╰╯─\b\s]", "", text)


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: " ".join(path) or "sparcl")
def test_nothing_of_the_help_is_swallowed(path):
    shown = CliRunner().invoke(app, [*path, "--help"])
    assert shown.exit_code == 0
    command = COMMANDS[path]
    assert command.help and letters(command.help) in letters(shown.output)
    for parameter in command.params:
        assert letters(getattr(parameter, "help", "") or "") in letters(shown.output)


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: " ".join(path) or "sparcl")
def test_examples_keep_their_lines(path):
    """A line of an example can be copied: a comment is at its end, not broken into the next one."""
    shown = CliRunner().invoke(app, [*path, "--help"]).output.splitlines()
    examples = [line for line in (COMMANDS[path].help or "").splitlines() if line.startswith("sparcl ")]
    assert all(f"  {line}" in shown for line in examples)


def test_the_table_of_commands_names_each_and_cuts_none():
    shown = CliRunner().invoke(app, ["--help"]).output
    for path in COMMANDS:
        if len(path) == 1:
            assert re.search(rf"^  {path[0]}  +[A-Z]", shown, flags=re.MULTILINE)
    assert "..." not in shown.partition("COMMAND [ARGS]...")[2]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("run digits/er --seed 1", "no option --seed; did you mean --set seed=1?"),
        ("run digits/er --epochs=3", "no option --epochs; did you mean --set epochs=3?"),
        ("run digits/er --lr 0.1 --quiet", "no option --lr; did you mean --set method.learning_rate=0.1?"),
        ("run digits/er --buffer-size", "no option --buffer-size; did you mean --set buffer_size=VALUE?"),
        ("run digits/er --output x", "no option --output; did you mean --out?"),
        ("run digits/er --protocl full", "no option --protocl; did you mean --protocol?"),
        ("compare runs --seed 1", "no option --seed."),  # it takes no settings
        ("rnu", "no command 'rnu'; did you mean 'run'?"),
        ("train", "no command 'train'; did you mean 'run'?"),
        ("bench trian", "no command 'trian'; did you mean 'train'?"),
        ("frobnicate", "no command 'frobnicate'."),
    ],
)
def test_an_unknown_option_or_command_gets_a_hint(arguments, expected):
    refused = CliRunner().invoke(app, arguments.split())
    assert refused.exit_code == 2
    assert letters(expected) in letters(refused.output)
