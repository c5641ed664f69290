"""Learners that learn in a fraction of a second."""

import shutil
import subprocess
import sys
from pathlib import Path

from sparcl.device.learner import Learner
from sparcl.device.states import read_sealed

SMALL = {
    "backbone": "none",
    "image_size": 8,
    "model": "convnet",
    "width": 4,
    "epochs": 2,
    "batch_size": 8,
    "buffer_size": 20,
    "threads": 1,
    "sparsifier": {"stage_epochs": 1},
}


class Photos:
    def __init__(self, folder: Path, digits: Path, count: int = 24) -> None:
        self.folder = folder
        for digit in range(10):
            (folder / str(digit)).mkdir()
            for number in range(count):
                name = f"{number:05d}.png"
                shutil.copy(digits / "train" / str(digit) / name, folder / str(digit) / name)

    def of(self, *names: str) -> dict[str, Path]:
        return {name: self.folder / name for name in names}


def small(directory: Path, **changes) -> Learner:
    return Learner.create(directory, **{**SMALL, **changes})


def state(learner: Learner) -> dict[str, object]:
    """Everything that was learned, to compare: the newest state without what depends on the clock."""
    number = learner.states.newest()
    if not number:
        return {"number": 0}
    tensors, content = read_sealed(learner.states.path(number))
    history = [{key: entry[key] for key in entry if key not in ("when", "seconds")} for entry in content["history"]]
    rest = {key: content[key] for key in ("network", "position", "generators")}
    arrays = {name: (str(t.dtype), t.shape, t.tobytes()) for name, t in tensors.items()}
    return {"number": number, "tensors": arrays, "history": history, **rest}


def sparcl(*arguments: str | Path, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sparcl.cli.main", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **options)
