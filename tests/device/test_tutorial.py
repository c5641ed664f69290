"""The tutorial works as it stands, every command in order in an empty folder, and what it teaches stays known."""

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


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    """The folder in which somebody followed the tutorial, and what was printed."""
    blocks = re.findall(r"```(sh|python)\n(.*?)```", (ROOT / "docs/tutorial.md").read_text(), flags=re.DOTALL)
    folder = tmp_path_factory.mktemp("tutorial")
    (folder / "blocks.json").write_text(json.dumps(blocks))
    (folder / "empty").mkdir()
    command = [sys.executable, "-c", DRIVER, str(folder / "blocks.json")]
    finished = subprocess.run(command, cwd=folder / "empty", capture_output=True, text=True, check=False, timeout=300)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return folder / "empty", finished


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
    lessons = re.findall(r"(?:sparcl learn|learner\.learn).*", (ROOT / "docs/tutorial.md").read_text())
    assert len(lessons) > 5 and not any("photos/test" in lesson for lesson in lessons)
