"""Dark Experience Replay++ (Buzzega et al., 2020)."""

from typing import Annotated, ClassVar

import numpy as np

from sparcl.methods.batch import Batch
from sparcl.methods.losses import cross_entropy, logit_mse, stacked
from sparcl.methods.rehearsal import Rehearsal
from sparcl.network import Logits
from sparcl.options import NotNegative


class DarkExperienceReplayPlusPlus(Rehearsal, name="derpp"):
    """CE(batch) + alpha * MSE(logits of replay A) + beta * CE(replay B), two independent draws, three forwards.

    With `one_pass` the three batches go through the network as one, which costs the same and normalises old and new
    samples alike. Where a task has a single class that is the difference between remembering and forgetting: batch
    statistics of one class alone are nothing like those the network meets when it predicts.
    """

    alpha: Annotated[NotNegative, "weight of matching the stored logits"] = 0.1
    beta: Annotated[NotNegative, "weight of the cross-entropy of replayed samples"] = 0.5
    one_pass: Annotated[bool, "new and replayed samples go through the network together"] = False

    reference = "Buzzega et al., 2020"
    keeps_logits: ClassVar[bool] = True
    replay_passes: ClassVar[int] = 2
    tuned = {
        "cifar10": {200: {"alpha": 0.1, "beta": 0.5}, 500: {"alpha": 0.2, "beta": 0.5}},
        "tiny_imagenet": {200: {"alpha": 0.1, "beta": 1.0}, 500: {"alpha": 0.2, "beta": 0.5}},
    }

    def step(self, batch: Batch) -> Logits:
        at_once = self.buffer and self.one_pass
        logits = self._descend_at_once(batch) if at_once else self._descend_one_by_one(batch)
        self.update()
        self.buffer.add(batch, logits)
        return logits

    def _descend_one_by_one(self, batch: Batch) -> Logits:
        logits = self.descend(batch.images, self.classification_loss(batch))
        if self.buffer:
            a, b = self.replay(), self.replay()
            self.descend(a.images, self.alpha * logit_mse(a.logits), replayed=True)
            self.descend(b.images, self.beta * cross_entropy(b.labels), replayed=True)
        return logits

    def _descend_at_once(self, batch: Batch) -> Logits:
        a, b = self.replay(), self.replay()
        loss = stacked(
            (len(batch), self.classification_loss(batch)),
            (len(a.labels), self.alpha * logit_mse(a.logits)),
            (len(b.labels), self.beta * cross_entropy(b.labels)),
        )
        images = np.concatenate([batch.images, a.images, b.images])
        return self.descend(images, loss, replayed=len(images) - len(batch))[: len(batch)]
