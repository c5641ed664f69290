"""Domain-incremental streams: every task has all the classes, and its images look different in a way of their own.

    permuted   the pixels change places, the same way in all images of a task
    rotated    the images are turned; task t of T by 180 t / T degrees

The first task has the images as they are. Shifting and mirroring would undo what a task is about, so there is no
augmentation. All tasks together lie in one store: memory is as many times that of the images as there are tasks.
"""

import itertools
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sparcl.data.augmentation import Augmentation
from sparcl.data.source import Domains, Progress
from sparcl.data.store import Store
from sparcl.data.stream import Samples, Stream, Task
from sparcl.data.tasks import Cut, cut_into_tasks
from sparcl.errors import SparclError

DEFAULT_TASKS = 5
AT_ONCE = 1000  # images that are turned between two reports of progress
PERMUTATION_SEED = 2022
"""Every run of a permuted stream sees the same permutations."""


def cut_into_domains(
    name: str,
    store: Store,
    cut: Cut,
    domains: Domains,
    augmentation: Augmentation,
    progress: Progress | None = None,
) -> Stream:
    """A stream of cut.tasks tasks with all classes each."""
    tasks = DEFAULT_TASKS if cut.tasks is None else cut.tasks
    if not 1 <= tasks <= 100:
        raise SparclError(f"tasks is {tasks}; choose from 1 to 100 domains.")
    plain = replace(augmentation, padding=0, flip=False)
    whole = cut_into_tasks(name, store, replace(cut, classes_per_task=len(store.class_names), tasks=None), plain)
    (task,) = whole.tasks
    train = _in_every_domain(task.train, domains, tasks, progress)
    test = _in_every_domain(task.test, domains, tasks, progress)
    validation = _in_every_domain(task.validation, domains, tasks, progress) if task.validation else [None] * tasks
    names = [_name(domains, index, tasks) for index in range(tasks)]
    return replace(
        whole,
        tasks=tuple(Task(i, task.classes, train[i], test[i], validation[i]) for i in range(tasks)),
        domains=tuple(names),
    )


def _in_every_domain(samples: Samples, domains: Domains, tasks: int, progress: Progress | None) -> list[Samples]:
    """The samples once for each task, in one new store. A store without pictures stays without."""
    count = len(samples)
    pictures = samples.images
    if len(pictures):
        original = samples.originals(slice(None))
        pictures = np.empty((tasks * count, *original.shape[1:]), np.uint8)
        for task, first in itertools.product(range(tasks), range(0, count, AT_ONCE)):
            some = original[first : first + AT_ONCE]
            done = task * count + first
            pictures[done : done + len(some)] = _transformed(some, domains, task, tasks)
            if progress:
                progress("making domains", done + len(some), len(pictures))
    return [Samples(pictures, np.arange(task * count, (task + 1) * count), samples.labels) for task in range(tasks)]


def _transformed(images: NDArray[np.uint8], domains: Domains, task: int, tasks: int) -> NDArray[np.uint8]:
    if task == 0:
        return images
    return permuted(images, task) if domains == "permuted" else rotated(images, 180 * task / tasks)


def permuted(images: NDArray[np.uint8], task: int) -> NDArray[np.uint8]:
    pixels = images.shape[2] * images.shape[3]
    places = np.random.default_rng([PERMUTATION_SEED, task]).permutation(pixels)
    return images.reshape(*images.shape[:2], pixels)[:, :, places].reshape(images.shape)


def rotated(images: NDArray[np.uint8], degrees: float) -> NDArray[np.uint8]:
    """Turned counter-clockwise around the centre, black where nothing was."""
    turned = np.empty_like(images)
    for place in np.ndindex(images.shape[:2]):
        turned[place] = np.asarray(Image.fromarray(images[place]).rotate(degrees, Image.Resampling.BILINEAR))
    return turned


def _name(domains: Domains, task: int, tasks: int) -> str:
    if task == 0:
        return "as they are"
    return f"permutation {task}" if domains == "permuted" else f"rotated by {180 * task / tasks:g}°"
