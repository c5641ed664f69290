"""One process that trains for a while and says how much memory it needed: python -m sparcl.bench.memory_child JOB."""

import json
import sys
from pathlib import Path

from sparcl.bench.memory import Job
from sparcl.metrics import peak_memory_mb


def main() -> None:
    job = Job.from_json(sys.argv[1])
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
    print(json.dumps({"peak_mb": own_peak_mb(), "idle_mb": idle}))


def own_peak_mb() -> float:
    """In MB (10^6 bytes). Linux lets the peak of getrusage begin with that of the parent process; this one does not."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        return peak_memory_mb()


if __name__ == "__main__":
    main()
