"""The peak of resident memory of whole processes that train DER++, each in a child of its own.

native         SparCL around DER++ on our engine, without torch
torch          dense DER++ as it is usually written: three forward passes alive, then one backward pass
torch_backend  dense DER++ with our methods, which go backward after each forward pass, on PyTorch
"""

from dataclasses import asdict

from sparcl.bench import dense
from sparcl.bench.contender import Contender
from sparcl.bench.memory_job import Job, train_here
from sparcl.bench.timing import LeftOutError, Note, Progress
from sparcl.bench.watched import Limits
from sparcl.bench.workload import Workload

TITLES = {
    "native": "SparCL DER++, our engine",
    "torch": "dense DER++ as usually written, PyTorch",
    "torch_backend": "dense DER++, our methods on PyTorch",
}


def measure_memory(
    work: Workload,
    sparsity: float,
    steps: int,
    buffer_size: int,
    threads: int,
    limits: Limits,
    note: Note,
    progress: Progress,
) -> dict[str, object]:
    """By child: its peak, and what it had before there was a network (interpreter and libraries), in MB (10^6)."""
    work.check("train")
    if not dense.available():
        note(dense.NEEDS_TORCH)
    found: dict[str, float | None] = {}
    for place, role in enumerate(TITLES):
        progress(f"training {role.replace('_', ' ')}", place, len(TITLES))
        job = Job(role, work, sparsity, steps, buffer_size, threads)
        measured = _measured(job, limits, note) if role == "native" or dense.available() else {}
        found |= {f"{role}_{name}": measured.get(name) for name in ("peak_mb", "idle_mb")}
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


def _measured(job: Job, limits: Limits, note: Note) -> dict[str, float]:
    try:
        with Contender(TITLES[job.role], job.threads, limits, must_work=job.role == "native") as contender:
            found: dict[str, float] = contender.call(train_here, job=job)
            return found
    except LeftOutError as failure:
        note(str(failure))
        return {}
