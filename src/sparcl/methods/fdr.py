"""Function Distance Regularisation (Benjamin et al., 2019)."""

from typing import Annotated, ClassVar

from sparcl.data import Task
from sparcl.methods.batch import Batch
from sparcl.methods.losses import softmax_distance
from sparcl.methods.rehearsal import TaskwiseRehearsal
from sparcl.network import Logits
from sparcl.options import NotNegative


class FunctionDistance(TaskwiseRehearsal, name="fdr"):
    """A step on CE(batch), then a step on alpha * mean L2 distance of softmax outputs, now and when their task ended.

    Deviations: one optimizer for both steps, where the paper has a second one of its own for the distance. The buffer
    is shared equally by the tasks so far and filled with random samples; the stored outputs are those of the
    un-augmented images.
    """

    alpha: Annotated[NotNegative, "weight of the distance to the stored outputs"] = 0.3

    reference = "Benjamin et al., 2019"
    keeps_logits: ClassVar[bool] = True
    tuned = {"cifar10": {200: {"alpha": 0.3}, 500: {"alpha": 1.0}}}

    def step(self, batch: Batch) -> Logits:
        logits = self.descend(batch.images, self.classification_loss(batch))
        self.update()
        if self.buffer:
            replayed = self.replay()
            self.descend(replayed.images, self.alpha * softmax_distance(replayed.logits), replayed=True)
            self.update()
        return logits

    def end_task(self, task: Task) -> None:
        share = self.buffer.capacity // (task.index + 1)
        self.buffer.keep_first(share, self.buffer.tasks)
        chosen = self.random_samples(task, share)
        if share:
            self.watcher.extra_pass(len(chosen), self.network, backward=False)
            self.buffer.append(chosen, task.index, self.compute(self.network.predict, chosen))
