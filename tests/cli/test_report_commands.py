"""`sparcl report`, `watch` and `metrics`, run as a user runs them."""

import http.client
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sparcl.files import read_json

COMMAND = [sys.executable, "-m", "sparcl.cli.main"]


def sparcl(*arguments):
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "one"
    changes = ("data.tasks=2", "epochs=1", "width=4", "backend=native")
    finished = sparcl("run", "digits/er", *(word for change in changes for word in ("--set", change)), "--out", path)
    assert finished.returncode == 0, finished.stderr
    return path


def test_a_report_is_one_file(run, tmp_path):
    out = tmp_path / "pages" / "report.html"
    finished = sparcl("report", run, "-o", out)
    assert (finished.returncode, finished.stdout) == (0, f"The report is in {out}\n")
    assert [path.name for path in out.parent.iterdir()] == ["report.html"]
    assert out.read_text().startswith("<!doctype html>")


def test_damaged_runs_get_one_line(run, tmp_path):
    damaged = tmp_path / "damaged"
    shutil.copytree(run, damaged)
    (damaged / "metrics.jsonl").write_text('{"event": "epoch", "task": -1}\n')
    out = tmp_path / "report.html"
    alone = sparcl("report", damaged, "-o", out)
    assert alone.returncode == 1 and len(alone.stderr.splitlines()) == 1
    assert "metrics.jsonl is damaged" in alone.stderr
    assert not out.exists()
    both = sparcl("report", damaged, run, "-o", out)
    assert both.returncode == 0 and "Left out" in both.stderr and out.exists()
    (damaged / "costs.json").write_text('{"seconds": {}, "flops": {"paper": {}, "full": {}}}')
    for command in ("metrics", "inspect", "cost"):
        exported = sparcl(command, damaged)
        assert exported.returncode == 1 and len(exported.stderr.splitlines()) == 1
    assert "costs.json is damaged" in exported.stderr


def test_a_damaged_run_does_not_stop_a_comparison(run, tmp_path):
    damaged = tmp_path / "damaged"
    shutil.copytree(run, damaged)
    (damaged / "costs.json").write_text("{}")
    both = sparcl("compare", damaged, run)
    assert both.returncode == 0 and "Left out" in both.stderr and "digits/er" in both.stdout
    alone = sparcl("compare", damaged)
    assert alone.returncode == 1 and "no finished run" in alone.stderr


def test_seconds_of_different_machines_or_threads_are_not_averaged(run, tmp_path):
    def mean_seconds(name, settings, environment):
        other = shutil.copytree(run, tmp_path / name)
        for file, changes in (("settings.json", {"seed": 1, **settings}), ("environment.json", environment)):
            (other / file).write_text(json.dumps(read_json(other / file) | changes))
        (row,) = json.loads(sparcl("compare", run, other, "--json").stdout)
        return row["measures"]["seconds"]["mean"]

    assert mean_seconds("alike", {}, {}) > 0
    assert mean_seconds("threads", {"threads": 3}, {}) is None
    assert mean_seconds("machine", {}, {"processor": "another one"}) is None


def test_metrics_are_printed_or_written(run, tmp_path):
    printed = sparcl("metrics", run).stdout
    assert printed.startswith("step,task,epoch,metric,value\n") and "class_il/task 1" in printed
    written = sparcl("metrics", run, "--csv", tmp_path / "m.csv", "--tensorboard", tmp_path / "logs")
    assert written.returncode == 0
    assert (tmp_path / "m.csv").read_text() == printed
    assert len(list((tmp_path / "logs").iterdir())) == 1


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_watch_serves_until_it_is_stopped(run, stop):
    watching = subprocess.Popen(
        [*COMMAND, "watch", str(run), "--no-browser"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        address = watching.stdout.readline().split("http://")[1].split("/")[0]
        connection = http.client.HTTPConnection(address, timeout=60)
        connection.request("GET", "/")
        assert "What was run" in connection.getresponse().read().decode()
        watching.send_signal(stop)
        rest, complaints = watching.communicate(timeout=60)
        assert (watching.returncode, rest, complaints) == (0, "Ended.\n", "")
    finally:
        watching.kill()
        watching.wait()
