"""`sparcl paper` from outside: a set of runs that is killed goes on, and every output is written."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from PIL import Image

from sparcl.learning.run_directory import RunDirectory

SMALL = """
source = "Figure 9"
kind = "tradeoff"
title = "A small one"
datasets = ["cifar10"]
columns = ["class_il", "task_il", "flops"]
settings = { width = 4, epochs = 3, buffer_size = 30, data = { tasks = 2 }, checkpoint = { minutes = 0 } }

[[rows]]
label = "ER"
run = "er"
paper.cifar10 = { class_il = [44.79, 1.86] }

[[rows]]
label = "DER++"
run = "derpp"

[[rows]]
label = "SparCL-DER++ 0.90"
run = "sparcl-derpp-90"
"""


def paper(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "sparcl.cli.main", "paper", *map(str, arguments)]


def finish(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(paper(*arguments), capture_output=True, text=True, check=False, timeout=300)


def cell(out: Path, name: str) -> RunDirectory | None:
    found = [path for path in (out / "cells").glob("*") if path.name.startswith(f"digits-{name}-smoke-seed0")]
    return RunDirectory(found[0]) if found else None


def wait_until(true, process: subprocess.Popen[bytes]) -> None:
    while not true():
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.01)


def contents(out: Path, name: str) -> dict[str, bytes]:
    directory = cell(out, name)
    assert directory is not None
    return {file: (directory.path / file).read_bytes() for file in ("metrics.jsonl", "result.json")}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed")
    (out / "small.toml").write_text(SMALL)
    (out / "page.md").write_text("Before\n<!-- begin small -->\n<!-- end small -->\nAfter\n")
    into = ("--into", out / "page.md", "--section", "small")
    ended = finish(out / "small.toml", "--protocol", "smoke", "--out", out, "--quiet", *into)
    assert ended.returncode == 0, ended.stderr
    return out


def test_killed_in_the_middle_it_goes_on(undisturbed, tmp_path):
    arguments = (undisturbed / "small.toml", "--protocol", "smoke", "--out", tmp_path, "--jobs", "1")
    process = subprocess.Popen(paper(*arguments), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def in_the_second() -> bool:
        second = cell(tmp_path, "derpp")
        return second is not None and any(second.path.glob("checkpoints/*.safetensors"))

    wait_until(in_the_second, process)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    first, second = cell(tmp_path, "er"), cell(tmp_path, "derpp")
    assert first is not None and first.result() is not None
    assert second is not None and second.result() is None and cell(tmp_path, "sparcl-derpp-90") is None
    stamps = [(first.path / "result.json").stat().st_mtime_ns, (second.path / "environment.json").read_bytes()]

    ended = finish(*arguments, "--json")
    assert ended.returncode == 0, ended.stderr
    assert [(first.path / "result.json").stat().st_mtime_ns, (second.path / "environment.json").read_bytes()] == stamps
    for name in ("er", "derpp", "sparcl-derpp-90"):
        assert contents(tmp_path, name) == contents(undisturbed, name)
    assert (tmp_path / "small-smoke.csv").read_bytes() == (undisturbed / "small-smoke.csv").read_bytes()
    rows = json.loads(ended.stdout)
    assert [row["row"] for row in rows] == ["ER", "DER++", "SparCL-DER++ 0.90"]


def test_every_output_is_written_and_says_the_same(undisturbed):
    rows = list(csv.DictReader((undisturbed / "small-smoke.csv").open()))
    expected = [json.loads(contents(undisturbed, name)["result.json"]) for name in ("er", "derpp", "sparcl-derpp-90")]
    for row, result in zip(rows, expected, strict=True):
        assert float(row["digits Class-IL"]) == result["class_il"]["average"]
        assert float(row["digits Task-IL"]) == result["task_il"]["average"]
    theirs = "digits Class-IL, paper on cifar10"  # another data set stands beside ours: the heading says so
    assert (rows[0][theirs], rows[0][f"{theirs} (std)"]) == ("44.79", "1.86")
    page = (undisturbed / "page.md").read_text()
    assert page.startswith("Before\n") and page.endswith("After\n")
    assert f"| ER | {float(rows[0]['digits Class-IL']):.2f} | 44.79 ± 1.86 |" in page
    assert "| Class-IL | Class-IL, paper on cifar10 |" in page
    assert "Our numbers are of digits, the paper's are of cifar10" in page and "cannot be compared" in page
    latex = (undisturbed / "small-smoke.tex").read_text()
    assert (
        len({line.count("&") for line in latex.splitlines() if line.endswith(r"\\") and "multicolumn" not in line}) == 1
    )
    assert re.search(r"\$\d\.\d\d\\cdot 10\^\{\d+\}\$", latex)  # FLOPs as mathematics
    assert ET.parse(undisturbed / "small-smoke.svg").getroot().tag.endswith("svg")
    with Image.open(undisturbed / "small-smoke.png") as picture:
        colours = picture.convert("RGB").getcolors(1 << 24)
    assert colours is not None and len(colours) > 10


def test_a_finished_run_is_taken_over_and_a_dry_run_runs_nothing(undisturbed, tmp_path):
    run = cell(undisturbed, "derpp")
    assert run is not None
    ended = finish(
        *(undisturbed / "small.toml", "--protocol", "smoke", "--out", tmp_path, "--adopt", run.path, "--dry-run")
    )
    assert ended.returncode == 0, ended.stderr
    assert "3 trials, 1 of them finished" in ended.stdout
    assert contents(tmp_path, "derpp") == contents(undisturbed, "derpp")
    assert cell(tmp_path, "er") is None
    # Broken off before its last file, it is taken over again.
    (cell(tmp_path, "derpp").path / "result.json").unlink()
    finish(*(undisturbed / "small.toml", "--protocol", "smoke", "--out", tmp_path, "--adopt", run.path, "--dry-run"))
    assert contents(tmp_path, "derpp") == contents(undisturbed, "derpp")


def test_a_trial_that_fails_is_named_and_the_others_stay(undisturbed, tmp_path):
    text = SMALL.replace('run = "derpp"', 'run = "derpp"\nsettings.method.learning_rate = 1e30')
    (tmp_path / "small.toml").write_text(text)
    chosen = ("--only", "ER", "--only", "DER++")
    ended = finish(tmp_path / "small.toml", "--protocol", "smoke", "--out", tmp_path, *chosen, "--quiet")
    assert ended.returncode == 1
    assert (
        "sparcl: DER++, digits, seed 0: The loss is no longer finite" in ended.stderr
        and "Traceback" not in ended.stderr
    )
    assert contents(tmp_path, "er") == contents(undisturbed, "er")
