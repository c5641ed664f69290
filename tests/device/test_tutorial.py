"""The tutorial works as it stands: every command of it, in order, in an empty folder."""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

# All commands in one process, because starting one takes longer than most of them.
DRIVER = """
import json, shlex, sys, types
from sparcl.cli import main as program
for language, block in json.load(open(sys.argv[1])):
    if language == "python":
        exec(block, {})
        continue
    for line in block.strip().splitlines():
        name, *arguments = shlex.split(line, comments=True)
        assert name == "sparcl", line
        print("$", line, flush=True)
        sys.argv = [name, *arguments]
        try:
            program.main()
        except SystemExit as end:
            assert not end.code, (line, end.code)
"""


def test_every_command_of_the_tutorial_works(tmp_path):
    blocks = re.findall(r"```(sh|python)\n(.*?)```", (ROOT / "docs/tutorial.md").read_text(), flags=re.DOTALL)
    (tmp_path / "blocks.json").write_text(json.dumps(blocks))
    (tmp_path / "empty").mkdir()
    command = [sys.executable, "-c", DRIVER, str(tmp_path / "blocks.json")]
    finished = subprocess.run(command, cwd=tmp_path / "empty", capture_output=True, text=True, check=False, timeout=300)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    told = dict(part.split("\n", 1) for part in finished.stdout.split("$ ")[1:])
    answers = told["sparcl predict shop photos/test/0/00001.png photos/test/4/00001.png"].splitlines()
    assert [line.split(": ")[1].split()[0] for line in answers] == ["0", "4"]
    exported = told["sparcl predict digits.sparcl photos/test/0/00001.png photos/test/4/00001.png"].splitlines()
    assert [line.split(": ")[1].split()[0] for line in exported] == ["0", "4"]
    in_a_hurry = told["sparcl learn shop photos/train/5 --minutes 0.05"]
    assert re.search(r"Learned 5 \(\d+ pictures\) in \d+ s", in_a_hurry)
    from_folder, from_memory = in_a_hurry.splitlines()[-2:]  # the Python parts come last
    assert from_folder.split()[0] == "6"
    assert from_memory in ("dark", "bright")
