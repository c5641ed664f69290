"""DER++ as a run does it, with or without SparCL around it: the loop's own steps on random images."""

from pathlib import Path

import numpy as np

from sparcl.bench.memory import STEPS_OF_THE_SECOND_EPOCH, Job
from sparcl.bench.workload import CHANNELS
from sparcl.data import Augmentation, Samples, Stream, Task
from sparcl.learning.evaluation import Accuracies
from sparcl.learning.position import Position
from sparcl.learning.run_directory import RunDirectory
from sparcl.learning.settings import Settings, resolve
from sparcl.learning.trainer import Trainer
from sparcl.sparsity import Moment

EPOCHS = 2


class Silent:
    """Nobody watches."""

    def noted(self, text: str) -> None: ...
    def started(self, total_steps: int, done_steps: int) -> None: ...
    def stepped(self, position: Position, loss: float) -> None: ...
    def evaluated(self, position: Position, accuracies: Accuracies) -> None: ...


def train(job: Job) -> None:
    """An epoch, everything that SparCL does at the end of a stage, and some steps with the masks it has moved."""
    task, shape = _task(job), (CHANNELS, job.work.image_size, job.work.image_size)
    augmentation = Augmentation(job.work.image_size // 8, True, (0.5,) * CHANNELS, (0.25,) * CHANNELS)
    stream = Stream("random", tuple(map(str, task.classes)), shape, (task,), augmentation)
    trainer = Trainer(_settings(job), stream, RunDirectory(Path("nowhere")), Silent())  # only a whole run writes
    trainer.sparsifier.begin_run()
    trainer.method.begin_task(task)
    trainer.sparsifier.begin_task(Moment(0, 0, 0, 0, EPOCHS), task)
    for _ in range(job.steps):
        trainer.train_step(task)
    trainer.sparsifier.end_epoch(Moment(0, 0, job.steps, job.steps, EPOCHS), task)
    trainer.position.next_epoch()
    for _ in range(STEPS_OF_THE_SECOND_EPOCH):
        trainer.train_step(task)


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
