"""Runs are named one by one, or by the directory they are in; those of a sweep keep the order of its grid."""

import json
import shutil
import subprocess
import sys

import pytest

SWEEP = """
base = "digits/er"
settings = { width = 4, epochs = 1, data = { tasks = 2 } }

[grid]
buffer_size = [30, 10, 20]
"""


def sparcl(*arguments):
    command = [sys.executable, "-m", "sparcl.cli.main", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    directory = tmp_path_factory.mktemp("sweep")
    (directory / "buffer.toml").write_text(SWEEP)
    finished = sparcl("sweep", directory / "buffer.toml", "--out", directory / "out", "--quiet")
    assert finished.returncode == 0, finished.stderr
    return directory / "out"


def compared(*arguments):
    finished = sparcl("compare", *arguments, "--json")
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == ""
    return [row["settings"]["buffer_size"] for row in json.loads(finished.stdout)]


def test_compare_keeps_the_order_of_a_sweep(swept):
    runs = sorted(path for path in swept.iterdir() if path.is_dir())
    by_name = [json.loads((run / "settings.json").read_text())["buffer_size"] for run in runs]
    assert by_name != [30, 10, 20], "choose other values: names in the order of the grid show nothing"
    assert compared(swept) == [30, 10, 20]
    assert compared(*runs) == [30, 10, 20]  # as a shell lists them for *
    assert compared(*runs[::-1]) == by_name[::-1]  # somebody wants them so


@pytest.mark.parametrize("order", ["", "{}", "[1, null]", "[" * 100_000, None])
def test_a_damaged_order_stops_nothing(swept, tmp_path, order):
    copy = shutil.copytree(swept, tmp_path / "copy")
    (copy / ".order.json").unlink() if order is None else (copy / ".order.json").write_text(order)
    assert sorted(compared(copy)) == [10, 20, 30]


def test_report_takes_a_directory_of_runs_too(swept, tmp_path):
    out = tmp_path / "report.html"
    assert sparcl("report", swept, "-o", out).returncode == 0
    page = out.read_text()
    assert "3 runs on digits" in page
    assert page.index("er buffer_size=30") < page.index("er buffer_size=10") < page.index("er buffer_size=20")
    empty = sparcl("report", tmp_path / "none", "-o", tmp_path / "other.html")
    assert empty.returncode == 1 and len(empty.stderr.splitlines()) == 1 and "is not a run directory" in empty.stderr
    assert not (tmp_path / "other.html").exists()
