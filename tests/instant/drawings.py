"""Drawn pictures, different enough to be told apart by any backbone, and a learner that sees them at a small size."""

import numpy as np
from PIL import Image

from sparcl import Learner

SIZE = 32
COLOURS = {"apples": (200, 30, 40), "pears": (60, 180, 60), "plums": (80, 40, 160), "lemons": (230, 210, 40)}


def draw(name, seed):
    """[SIZE, SIZE, 3]: a disc of the class's colour on a noisy ground, somewhere."""
    generator = np.random.default_rng([list(COLOURS).index(name), seed])
    picture = generator.integers(90, 160, (SIZE, SIZE, 3))
    rows, columns = np.mgrid[:SIZE, :SIZE]
    centre = generator.integers(10, SIZE - 10, 2)
    disc = (rows - centre[0]) ** 2 + (columns - centre[1]) ** 2 < generator.integers(36, 100)
    picture[disc] = np.array(COLOURS[name]) + generator.integers(-20, 20, 3)
    return picture.clip(0, 255).astype(np.uint8)


def drawn(name, count, first=0):
    return [draw(name, seed) for seed in range(first, first + count)]


def save(folder, name, count, first=0):
    (folder / name).mkdir(parents=True, exist_ok=True)
    for seed in range(first, first + count):
        Image.fromarray(draw(name, seed)).save(folder / name / f"{seed}.png")
    return folder / name


def make(directory, **changes):
    return Learner.create(directory, SIZE, **changes)


def content_of(learner):
    """Everything that answers follow from, as bytes: the pictures and the head, without the history."""
    tensors, state = learner.state().to_tensors()
    calibration = repr(learner.state().head.calibration)
    return {name: tensor.tobytes() for name, tensor in tensors.items()}, calibration, state["classes"]
