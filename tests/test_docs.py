"""The documents' code runs as it stands."""

import json
import re
import subprocess
import sys
from pathlib import Path

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


def test_the_readme_names_only_commands_that_exist():
    for line in "\n".join(blocks("README.md", "sh")).splitlines():
        words = line.split("#")[0].split()
        if words[:1] == ["sparcl"]:
            command = [word for word in words[1:3] if re.fullmatch("[a-z]+", word)]
            assert sparcl(" ".join(command[:1]) + " --help", ROOT).returncode == 0, line
        if words[:1] == ["make"]:
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE), line


def test_the_page_of_methods_lists_what_there_is():
    listed = json.loads(sparcl("methods --json", ROOT).stdout)
    rows = [line for line in (ROOT / "docs/methods.md").read_text().splitlines() if line.startswith("| `")]
    cells = [[cell.strip().strip("`") for cell in row.strip("|").split("|")] for row in rows]
    shown = [["yes" if v is True else "-" if v is False else v for v in entry.values()] for entry in listed]
    assert cells == shown
