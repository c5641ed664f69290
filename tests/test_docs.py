"""The documents' code runs as it stands."""

import importlib.util
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from sparcl.cli.app import app
from sparcl.cli.predict import options_parser

ROOT = Path(__file__).parents[1]


def blocks(document: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / document).read_text(), flags=re.DOTALL)


def sparcl(arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sparcl.cli.main", *arguments.split()]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, timeout=300)


def test_the_method_of_the_page_learns(tmp_path):
    method, torch_part = blocks("docs/add-a-method.md", "python")
    (tmp_path / "margin.py").write_text(method)
    first, second = blocks("docs/add-a-method.md", "sh")[0].strip().splitlines()
    for line in (first, second):
        finished = sparcl(line.removeprefix("sparcl ") + " --set data.tasks=2 --set epochs=3 --json", tmp_path)
        assert finished.returncode == 0, finished.stderr
    assert "margin" in finished.stdout
    compared = sparcl("compare runs/digits-margin-seed0 runs/digits-margin-seed1", tmp_path)
    assert "digits/margin" in compared.stdout  # to look at a run, its method need not be there
    exec(torch_part, {})


DOCUMENTS = ["README.md", "CONTRIBUTING.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_documents_name_only_commands_and_options_that_exist(document):
    for line in "\n".join(blocks(document, "sh")).replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            words.pop(0)
        if words[:1] == ["make"]:
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE), line
        if words[:2] == ["python", "-m"]:
            assert (ROOT / f"{words[2].replace('.', '/')}.py").exists() or importlib.util.find_spec(words[2]), line
        if words[:1] == ["sparcl"]:
            check_command(words[1:], line)


def check_command(words, line):
    command = typer.main.get_command(app)
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        assert words[0] in command.commands, line
        command = command.commands[words.pop(0)]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    if command.name == "predict":  # it has a parser of its own
        known = {option for action in options_parser()._actions for option in action.option_strings}
    for word in words:
        if word.startswith("-") and word != "-":
            assert word.split("=")[0] in {*known, "--help"}, line


def test_the_page_of_methods_lists_what_there_is():
    listed = json.loads(sparcl("methods --json", ROOT).stdout)
    rows = [line for line in (ROOT / "docs/methods.md").read_text().splitlines() if line.startswith("| `")]
    cells = [[cell.strip().strip("`") for cell in row.strip("|").split("|")] for row in rows]
    shown = [["yes" if v is True else "-" if v is False else v for v in entry.values()] for entry in listed]
    assert cells == shown
