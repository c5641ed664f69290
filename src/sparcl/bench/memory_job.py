"""What a process does whose memory is measured: it trains for a while, and says how much it needed."""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sparcl.bench.workload import Workload
from sparcl.metrics import peak_memory_mb

STEPS_OF_THE_SECOND_EPOCH = 2


@dataclass(frozen=True)
class Job:
    """How to train. role: one of those that memory.py lists."""

    role: str
    work: Workload
    sparsity: float
    steps: int
    buffer_size: int
    threads: int

    def samples(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Random pixels and labels: one epoch."""
        return self.work.samples(self.steps * self.work.batch)


def train_here(job: Job) -> dict[str, float]:
    # Each way to train loads only what it needs itself, and that counts as idle memory.
    if job.role == "torch":
        from sparcl.bench.memory_usual import train
    else:
        from sparcl.bench.memory_ours import train
    if job.role != "native":
        import torch

        torch.set_num_threads(job.threads)
    idle = own_peak_mb()
    train(job)
    if job.role == "native" and "torch" in sys.modules:
        raise AssertionError("the native engine has loaded torch")
    return {"peak_mb": own_peak_mb(), "idle_mb": idle}


def own_peak_mb() -> float:
    """In MB (10^6 bytes). Linux lets the peak of getrusage begin with that of the parent process; this one does not."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        return peak_memory_mb()
