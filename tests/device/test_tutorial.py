"""The tutorials work as they stand, every command in order in an empty folder, and what they teach stays known."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sparcl.device.learner import Learner

ROOT = Path(__file__).parents[2]

# All commands in one process, because starting one takes longer than most of them.
DRIVER = """
import json, shlex, subprocess, sys
from sparcl.cli import main as program
for language, block in json.load(open(sys.argv[1])):
    if language == "python":
        exec(block, {})
        continue
    for line in block.strip().splitlines():
        name, *arguments = shlex.split(line, comments=True)
        if name != "sparcl":
            subprocess.run(line, shell=True, check=True)
            continue
        print("$", line, flush=True)
        sys.argv = [name, *arguments]
        try:
            program.main()
        except SystemExit as end:
            assert not end.code, (line, end.code)
"""


def follow(page, folder):
    """Everything in it, in an empty folder."""
    blocks = re.findall(r"```(sh|python)\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    (folder / "blocks.json").write_text(json.dumps(blocks))
    (folder / "empty").mkdir()
    command = [sys.executable, "-c", DRIVER, str(folder / "blocks.json")]
    finished = subprocess.run(command, cwd=folder / "empty", capture_output=True, text=True, check=False, timeout=300)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return folder / "empty", finished


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    """The folder in which somebody followed the tutorial from scratch, and what was printed."""
    return follow("docs/tutorial-from-scratch.md", tmp_path_factory.mktemp("tutorial"))


def test_the_tutorial_with_a_backbone(tmp_path):
    folder, finished = follow("docs/tutorial.md", tmp_path)
    told = dict(part.split("\n", 1) for part in finished.stdout.split("$ ")[1:])
    answers = told["sparcl predict shop photos/test/0/00001.png photos/test/4/00002.png"].splitlines()
    assert [line.split(": ")[1].split()[0] for line in answers] == ["0", "4"]
    assert "unknown" not in told["sparcl predict shop photos/test/9/00009.png --always"]
    learner, right = Learner.open(folder / "shop"), []
    for digit in "01234":
        answers = learner.predict([str(file) for file in sorted((folder / "photos/test" / digit).iterdir())[:10]])
        right += [answer.classes[0] == digit for answer in answers]
    assert sum(right) / len(right) > 0.8
    assert learner.status()["classes"][-1]["name"] == "6"  # the nine was forgotten
    assert finished.stdout.splitlines()[-1] in ("dark", "unknown")


def test_every_command_of_the_tutorial_works(followed):
    told = dict(part.split("\n", 1) for part in followed[1].stdout.split("$ ")[1:])
    answers = told["sparcl predict shop photos/test/0/00001.png photos/test/4/00001.png"].splitlines()
    assert [line.split(": ")[1].split()[0] for line in answers] == ["0", "4"]
    exported = told["sparcl predict digits.sparcl photos/test/0/00001.png photos/test/4/00001.png"].splitlines()
    assert [line.split(": ")[1].split()[0] for line in exported] == ["0", "4"]
    in_a_hurry = told["sparcl learn shop photos/train/5 --minutes 1"]
    assert re.search(r"Learned 5 \(\d+ pictures\) in \d+ s", in_a_hurry)
    from_folder, from_memory = in_a_hurry.splitlines()[-2:]  # the Python parts come last
    assert from_folder.split()[0] == "6"
    assert from_memory in ("dark", "bright")


def test_the_tutorial_does_not_harm_its_own_learner(followed):
    """Judged on pictures that it was never given: no class is lost, and none of them was trained on."""
    folder, finished = followed
    assert "WARNING" not in finished.stderr and "made classes worse" not in finished.stdout
    learner, right = Learner.open(folder / "shop"), {}
    for digit in "0123456":
        answers = learner.predict(folder / "photos" / "test" / digit)
        right[digit] = sum(answer.name == digit for answer in answers) / len(answers)
    assert min(right.values()) > 0.7 and sum(right.values()) / len(right) > 0.9, right
    lessons = re.findall(r"(?:sparcl learn|learner\.learn).*", (ROOT / "docs/tutorial-from-scratch.md").read_text())
    assert len(lessons) > 5 and not any("photos/test" in lesson for lesson in lessons)
