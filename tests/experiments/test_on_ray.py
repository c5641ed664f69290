"""Trials on Ray: workers that are killed lose nothing, and the results are those of this machine's own processes."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sparcl.errors import SparclError
from sparcl.experiments.search import search
from sparcl.experiments.sweep import Sweep
from sparcl.experiments.trial import progress_of
from sparcl.learning.run_directory import RunDirectory

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason='Ray is not installed: pip install "sparcl-edge[sweep]"'
)

EIGHT = """
base = "digits/derpp"
seeds = 4
settings = { epochs = 3, width = 4, buffer_size = 30, backend = "native", data.tasks = 2, checkpoint.minutes = 0 }
[grid]
method.alpha = [0.1, 0.5]
"""


def sweep(file: Path, out: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "sparcl.cli.main", "sweep", str(file), "--out", str(out), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def results(out: Path) -> dict[str, tuple[bytes, bytes]]:
    return {
        path.parent.name: (path.read_bytes(), path.with_name("metrics.jsonl").read_bytes())
        for path in out.glob("*/result.json")
    }


def trial_at_work(out: Path, process: subprocess.Popen[str]) -> int:
    """The process of a trial that is in the middle."""
    while True:
        for path in out.glob("*"):
            told = progress_of(RunDirectory(path))
            if told is not None and any((path / "checkpoints").glob("*.safetensors")):
                return told.pid
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


@needs_ray
def test_eight_trials_with_a_killed_worker_are_as_without_ray(tmp_path):
    file = tmp_path / "eight.toml"
    file.write_text(EIGHT)
    here = sweep(file, tmp_path / "local", "--json")
    rows, errors = here.communicate(timeout=300)
    assert here.returncode == 0, errors

    there = sweep(file, tmp_path / "ray", "--on", "ray", "--jobs", "2", "--json")
    pid = trial_at_work(tmp_path / "ray", there)
    os.kill(parent_of(pid), signal.SIGKILL)  # Ray's worker, with the trial's process below it
    rows_of_ray, errors = there.communicate(timeout=300)
    assert there.returncode == 0, errors
    assert len(results(tmp_path / "ray")) == 8
    assert results(tmp_path / "ray") == results(tmp_path / "local")
    found, again = json.loads(rows), json.loads(rows_of_ray)
    for row in (*found, *again):
        del row["measures"]["seconds"], row["measures"]["MB"]
    assert found == again


def test_without_ray_it_is_said_in_one_line(tmp_path):
    file = tmp_path / "eight.toml"
    file.write_text(EIGHT)
    (tmp_path / "ray.py").write_text("raise ImportError('not here')")
    command = [
        sys.executable,
        "-m",
        "sparcl.cli.main",
        "sweep",
        str(file),
        "--on",
        "ray",
        "--out",
        str(tmp_path / "out"),
    ]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=300)
    assert ended.returncode == 1
    assert ended.stderr.strip() == (
        'sparcl: This needs Ray, which is not installed. Install it with: pip install "sparcl-edge[sweep]"'
    )


SEARCH = """
base = "digits/er"
settings = { epochs = 1, width = 4, backend = "native", data.tasks = 2 }
[search]
trials = 3
space.method.learning_rate = { low = 0.01, high = 0.3, scale = "log" }
space.buffer_size = [20, 40]
"""


@needs_ray
def test_a_search_is_judged_by_validation_images(tmp_path):
    pytest.importorskip("ray.tune", reason='Ray Tune is not installed: pip install "sparcl-edge[sweep]"')
    file = tmp_path / "search.toml"
    file.write_text(SEARCH)
    process = sweep(file, tmp_path / "out", "--on", "ray", "--search", "--json")
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    found = json.loads(out)
    accuracies = [one["accuracy"] for one in found]
    assert accuracies == sorted(accuracies, reverse=True)
    runs = {path.parent: json.loads(path.read_text()) for path in (tmp_path / "out").glob("*/result.json")}
    assert sorted(accuracies) == sorted(result["class_il"]["average"] for result in runs.values())
    for path in runs:
        stored = RunDirectory(path).settings()
        assert (stored.evaluation.split, stored.data.validation) == ("validation", 0.2)
        assert {
            "method.learning_rate": stored.method.options["learning_rate"],
            "buffer_size": stored.buffer_size,
        } in [one["point"] for one in found]
    assert all(0.01 <= one["point"]["method.learning_rate"] <= 0.3 for one in found)


@pytest.mark.parametrize(
    ("space", "words"),
    [
        ("space.method.alhpa = [1]", "There is no setting called 'method.alhpa'"),
        ("space.epochs = 3", "must be a list of choices"),
        ("space.epochs = { low = 3, high = 3 }", "low must be less than high"),
        ("space.method.beta = { low = 0, high = 3, scale = 'log' }", "above 0 on a log scale"),
        ("space.method.beta = { low = 0, high = 3, sclae = 'log' }", "did you mean"),
    ],
)
def test_what_is_wrong_with_a_search_is_said_before_ray_starts(tmp_path, space, words):
    file = tmp_path / "search.toml"
    file.write_text(f'base = "digits/derpp"\n[search]\n{space}')
    with pytest.raises(SparclError, match=words):
        search(Sweep(file), tmp_path, 1, 1, None, 0, [], quiet=True)
