"""Small real runs: two tasks of the embedded digits, a few seconds each."""

import json
import subprocess
import sys
from pathlib import Path

from safetensors.numpy import load_file

from sparcl.data import load_stream
from sparcl.learning.run_directory import RunDirectory
from sparcl.learning.settings import from_preset, resolve, with_changes
from sparcl.learning.trainer import Trainer

SMALL = [
    *("--set", "data.tasks=2", "--set", "epochs=2", "--set", "width=4", "--set", "threads=1"),
    *("--set", "evaluation.snapshots=3", "--set", "evaluation.snapshot_steps=6"),
    *("--set", "evaluation.bn_recalibration=true", "--set", "buffer_size=30"),
]


def sparcl(*arguments: str | Path, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sparcl.cli.main", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, **options)


def everything_that_must_be_identical(directory: Path) -> dict[str, object]:
    """Final parameters, statistics, buffer, generators, and the metrics, to the last bit."""
    newest = max((directory / "checkpoints").glob("*.safetensors"))
    with open(newest, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    state = json.loads(header["__metadata__"]["state"])
    for measured in ("seconds", "peak_memory_mb", "seal"):
        state.pop(measured)
    return {
        "tensors": {name: (tensor.dtype, tensor.tobytes()) for name, tensor in sorted(load_file(newest).items())},
        "state": state,
        "metrics": (directory / "metrics.jsonl").read_bytes(),
        "result": (directory / "result.json").read_bytes(),
    }


class Nobody:
    """Watches a run, and says nothing."""

    def started(self, *_): ...
    def stepped(self, *_): ...
    def evaluated(self, *_): ...
    def noted(self, *_): ...
    def warned(self, *_): ...


def trainer_of(preset, path, *changes, listener=None):
    """A run in this process; it goes on if the directory is there."""
    settings = resolve(with_changes(from_preset(preset), changes))
    stream = load_stream(settings.dataset, order_seed=settings.seed, **vars(settings.data))
    directory = RunDirectory(path) if path.exists() else RunDirectory.create(path, settings, {})
    return Trainer(settings, stream, directory, listener or Nobody())
