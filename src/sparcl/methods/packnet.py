"""PackNet (Mallya and Lazebnik, 2018)."""

from typing import Annotated

from sparcl.methods.batch import Batch
from sparcl.methods.partitioned import Partitioned
from sparcl.network import Logits
from sparcl.options import Share


class PackNet(Partitioned, name="packnet"):
    """Train the free weights, keep the largest, retrain them, and freeze them for good.

    Deviations: every task has its own normalisation, where the paper freezes that of the first task. The first task
    gives back the share `prune_first`, and the later ones divide it equally, where the paper prunes a fixed share of
    what is free. The retraining is part of the task's epochs.
    """

    prune_first: Annotated[Share, "share of the weights that the first task gives back"] = 0.5

    reference = "Mallya and Lazebnik, 2018"

    def shares(self, size: int) -> list[int]:
        first, later = size - round(self.prune_first * size), self.context.tasks - 1
        each = [(size - first) // later] * later if later else []
        if later:
            each[-1] += (size - first) % later
        return [first, *each]

    def step(self, batch: Batch) -> Logits:
        if not self.pruned and batch.progress >= 1 - self.retrain:
            self.prune()
        logits = self.descend(batch.images, self.classification_loss(batch))
        self.update(self.trainable())
        return logits
