"""DER++ as a run does it, with or without SparCL around it: the loop's own steps on random images."""

from sparcl.bench.loop_side import loop_of, random_task
from sparcl.bench.memory_job import STEPS_OF_THE_SECOND_EPOCH, Job

SPARSE = {"sparsifier": {"name": "sparcl", "stage_epochs": 1}, "backend": "native"}


def train(job: Job) -> None:
    """An epoch, everything that SparCL does at the end of a stage, and some steps with the masks it has moved."""
    task = random_task(job.work, job.steps * job.work.batch)
    backend = {**SPARSE, "sparsity": job.sparsity} if job.role == "native" else {"backend": "torch"}
    settings = {"method": "derpp", "buffer_size": job.buffer_size, "epochs": 2, "threads": job.threads, **backend}
    loop = loop_of(job.work, task, settings)
    loop.begin_run()
    loop.begin_task(task)
    for _ in range(job.steps):
        loop.train_step(task)
    loop.end_epoch(task)
    for _ in range(STEPS_OF_THE_SECOND_EPOCH):
        loop.train_step(task)
