"""A sparsifier as a user may write it, with a schedule of its own."""

import numpy as np

from sparcl.metrics.schedule import SparsePlan
from sparcl.sparsity import Sparsifier


class Halving(Sparsifier):
    """Every other sample leaves after two epochs, or earlier in a task that has little time."""

    open_ended = True

    def __init__(self, context, options):
        super().__init__(context, options)
        self.whole_epochs, self.epoch = 2, 0

    def begin_task(self, moment, task):
        self.epoch = 0

    def end_epoch(self, moment, task):
        self.epoch = moment.epoch + 1

    def samples(self, task):
        return np.arange(0, len(task.train), 1 if self.epoch < self.whole_epochs else 2)

    def samples_in_epoch(self, task, epoch):
        return half(len(task.train), epoch >= self.whole_epochs)

    def replan(self, epochs):
        self.whole_epochs = max(1, round(2 * epochs / self.context.epochs))

    @classmethod
    def cost_plan(cls, sparsity, options):
        return SparsePlan(sparsity=sparsity, removal=AfterTwoEpochs(), stage_epochs=1)


class AfterTwoEpochs:
    def remaining(self, original, finished_stages):
        return half(original, finished_stages >= 2)


def half(count, is_due):
    return -(-count // 2) if is_due else count
