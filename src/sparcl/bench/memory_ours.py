"""DER++ as a run does it, with or without SparCL around it: the loop's own steps on random images."""

import numpy as np

from sparcl.bench.memory_job import STEPS_OF_THE_SECOND_EPOCH, Job
from sparcl.bench.workload import CHANNELS
from sparcl.data import Augmentation, Samples, Task
from sparcl.graph import build_model
from sparcl.learning.loop import Loop
from sparcl.learning.settings import Settings, resolve

EPOCHS = 2


def train(job: Job) -> None:
    """An epoch, everything that SparCL does at the end of a stage, and some steps with the masks it has moved."""
    task, shape = _task(job), (CHANNELS, job.work.image_size, job.work.image_size)
    augmentation = Augmentation(job.work.image_size // 8, True, (0.5,) * CHANNELS, (0.25,) * CHANNELS)
    graph = build_model(job.work.model, shape, job.work.classes, job.work.width)
    loop = Loop(_settings(job), graph, augmentation, (task,))
    loop.begin_run()
    loop.begin_task(task)
    for _ in range(job.steps):
        loop.train_step(task)
    loop.end_epoch(task)
    for _ in range(STEPS_OF_THE_SECOND_EPOCH):
        loop.train_step(task)


def _task(job: Job) -> Task:
    images, labels = job.samples()
    samples = Samples(images, np.arange(len(labels)), labels)
    return Task(0, range(job.work.classes), samples, samples, None)


def _settings(job: Job) -> Settings:
    sparse = {"sparsifier": {"name": "sparcl", "stage_epochs": 1}, "sparsity": job.sparsity, "backend": "native"}
    return resolve(
        {
            **(sparse if job.role == "native" else {"backend": "torch"}),
            "dataset": "cifar10",  # for its hyper-parameters
            "method": "derpp",
            "model": job.work.model,
            "width": job.work.width,
            "batch_size": job.work.batch,
            "replay_batch_size": job.work.batch,
            "buffer_size": job.buffer_size,
            "epochs": EPOCHS,
            "threads": job.threads,
        }
    )
