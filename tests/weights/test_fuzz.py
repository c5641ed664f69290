"""Thousands of damaged files, each refused in one line or read right, within bounds of time and memory."""

import subprocess
import sys
from pathlib import Path


def test_damaged_files_are_refused_or_read():
    """In a process of its own, because it limits its memory."""
    command = [sys.executable, "-m", "benchmarks.weights_fuzz", "--count", "3000", "--seed", "7"]
    root = Path(__file__).parents[2]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root, timeout=280)
    assert finished.returncode == 0, finished.stderr
    assert "3,000 damaged files: each was refused in one line, or read" in finished.stdout
    for kind in ("archive", "old", "safetensors", "pooled backbone"):  # of each some are still whole
        assert any(line.startswith(kind) and ": read" in line for line in finished.stdout.splitlines()), kind
