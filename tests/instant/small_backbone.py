"""A small backbone with random weights, and pictures of classes that it cannot tell apart well."""

import numpy as np

from sparcl.backbone.file import read_backbone, save_backbone
from sparcl.device.held_out import digests
from sparcl.graph import build_model
from sparcl.network.parameters import Parameters

SIZE = 16


def small_backbone(directory, model="resnet18", width=8):
    """Its running statistics are not those of new norms, so that whoever forgets them is noticed."""
    graph = build_model(model, (3, SIZE, SIZE), 2, width)
    parameters, generator = Parameters(graph), np.random.default_rng(0)
    parameters.initialise(graph, generator)
    for name in parameters.statistics:
        numbers = parameters.statistics[name]
        if name.endswith("running_var"):
            numbers[...] = generator.uniform(0.5, 1.5, numbers.shape)
        elif name.endswith("running_mean"):
            numbers[...] = generator.normal(0, 0.1, numbers.shape)
    save_backbone(graph, parameters, directory / f"{model}.safetensors", size=SIZE)
    return read_backbone(directory / f"{model}.safetensors", model)


def striped_pictures(count, classes=3, seed=1):
    """Pictures [count, 3, SIZE, SIZE], labels, digests: stripes of another width for each class, and much noise."""
    generator = np.random.default_rng(seed)
    labels = np.arange(count) % classes
    rows = np.arange(SIZE)[:, None] + generator.integers(0, SIZE, count)[:, None, None]
    stripes = 30.0 * np.sign(np.sin(np.pi * rows / (labels[:, None, None] + 1.5)))
    noise = generator.normal(0, 25, (count, 3, SIZE, SIZE))
    pictures = (128 + stripes[:, None] + noise).clip(0, 255).astype(np.uint8)
    return pictures, labels.astype(np.int64), digests(pictures)


class Watcher:
    """Listens to a training; stops it after some steps."""

    def __init__(self, stop_after=None):
        self.losses, self.stop_after, self.training = [], stop_after, None

    def noted(self, text): ...
    def started(self, total_steps, done_steps): ...

    def stepped(self, epoch, epochs, step, total_steps, loss):
        self.losses.append(loss)
        if len(self.losses) == self.stop_after:
            self.training.request_stop()
