"""The peak of resident memory of whole processes that train DER++, each in a child of its own.

native         SparCL around DER++ on our engine, without torch
torch          dense DER++ as it is usually written: three forward passes alive, then one backward pass
torch_backend  dense DER++ with our methods, which go backward after each forward pass, on PyTorch
"""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from sparcl.bench import dense
from sparcl.bench.timing import Progress
from sparcl.bench.workload import CHANNELS, Workload
from sparcl.errors import SparclError

CHILDREN = ("native", "torch", "torch_backend")
STEPS_OF_THE_SECOND_EPOCH = 2


@dataclass(frozen=True)
class Job:
    """What a child does."""

    role: str
    work: Workload
    sparsity: float
    steps: int
    buffer_size: int
    threads: int

    def samples(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Random pixels and labels: one epoch."""
        random = np.random.default_rng(0)
        count, side = self.steps * self.work.batch, self.work.image_size
        images = random.integers(0, 256, (count, CHANNELS, side, side), dtype=np.uint8)
        return images, random.integers(0, self.work.classes, count)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Job":
        values = json.loads(text)
        return cls(**{**values, "work": Workload(**values["work"])})


def measure_memory(
    work: Workload,
    sparsity: float,
    steps: int,
    buffer_size: int,
    threads: int,
    note: Callable[[str], None],
    progress: Progress,
) -> dict[str, object]:
    """By child: its peak, and what it had before there was a network (interpreter and libraries), in MB (10^6)."""
    work.check_training()
    if not dense.available():
        note(dense.NEEDS_TORCH)
    roles = CHILDREN if dense.available() else CHILDREN[:1]
    found: dict[str, float | None] = {}
    for place, role in enumerate(CHILDREN):
        progress(f"training {role.replace('_', ' ')}", place, len(CHILDREN))
        peak, idle = _run(Job(role, work, sparsity, steps, buffer_size, threads)) if role in roles else (None, None)
        found |= {f"{role}_peak_mb": peak, f"{role}_idle_mb": idle}
    ours, theirs = found["native_peak_mb"], found["torch_peak_mb"]
    ratio = theirs / ours if ours and theirs else None
    return {
        **found,
        "ratio": ratio,
        **asdict(work),
        "sparsity": sparsity,
        "steps": steps,
        "buffer_size": buffer_size,
    }


def _run(job: Job) -> tuple[float, float]:
    command = [sys.executable, "-m", "sparcl.bench.memory_child", job.to_json()]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        lines = finished.stderr.strip().splitlines() or [f"exit code {finished.returncode}"]
        raise SparclError(f"The process that trains {job.role} failed: {lines[-1]}")
    report = json.loads(finished.stdout)
    return report["peak_mb"], report["idle_mb"]
