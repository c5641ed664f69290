"""A run of the tests always ends: one that crashes or hangs fails under its name, and the others are still run."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

ENDLESS = """
import ctypes, os, signal, subprocess, sys, time
from pathlib import Path

import pytest

def start_an_endless_process():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1e6)"])
    (Path(__file__).parent / f"{os.getpid()}.child").write_text(str(child.pid))

def test_is_killed():
    start_an_endless_process()
    os.kill(os.getpid(), signal.SIGKILL)

def test_traps():
    os.kill(os.getpid(), signal.SIGILL)

def test_sleeps():
    start_an_endless_process()
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    time.sleep(1e6)

def test_hangs_in_native_code_that_keeps_the_lock():
    ctypes.PyDLL(None).pause()

@pytest.mark.parametrize("number", range(6))
def test_behind_them(number):
    pass
"""
ORDINARY = """
import pytest

@pytest.mark.parametrize("number", range(6))
def test_is_fine(number):
    pass
"""
BAD = ("test_is_killed", "test_traps", "test_sleeps", "test_hangs_in_native_code_that_keeps_the_lock")


def test_a_test_that_crashes_or_hangs_fails_under_its_name_and_the_others_run(tmp_path):
    (tmp_path / "test_endless.py").write_text(ENDLESS)
    (tmp_path / "test_ordinary.py").write_text(ORDINARY)
    own = ("-c", ROOT / "pyproject.toml", "-p", "tests.conftest", "-p", "no:cacheprovider")
    # Long enough for all ordinary tests of a worker; only one that hangs waits for it.
    limits = ("-o", "faulthandler_timeout=8", "--numprocesses", 2)
    command = [sys.executable, "-m", "pytest", *map(str, (*own, *limits, tmp_path))]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=250)
    assert finished.returncode == 1, finished.stdout + finished.stderr
    failed = [line for line in finished.stdout.splitlines() if line.startswith("FAILED")]
    assert len(failed) == len(BAD)
    for name in BAD:
        assert any(f"test_endless.py::{name} " in line for line in failed)
    assert f"{len(BAD)} failed, 12 passed" in finished.stdout
    children = [int(path.read_text()) for path in tmp_path.glob("*.child")]
    assert len(children) == 2
    assert not any(is_running(child) for child in children)


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    return state != "Z"  # ended, but whoever inherited it has not looked
