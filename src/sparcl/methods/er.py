"""Experience Replay (Rolnick et al., 2019; Riemer et al., 2019)."""

import numpy as np

from sparcl.methods.batch import Batch
from sparcl.methods.losses import cross_entropy, joined
from sparcl.methods.rehearsal import Rehearsal
from sparcl.network import Logits
from sparcl.options import Positive


class ExperienceReplay(Rehearsal, name="er"):
    """One forward over the batch and a replayed batch together; mean cross-entropy over both."""

    learning_rate: Positive = 0.1

    reference = "Rolnick et al., 2019; Riemer et al., 2019"
    tuned = {
        "cifar10": {200: {"learning_rate": 0.1}, 500: {"learning_rate": 0.1}},
        "tiny_imagenet": {200: {"learning_rate": 0.1}, 500: {"learning_rate": 0.03}},
    }

    def step(self, batch: Batch) -> Logits:
        images, loss = batch.images, self.classification_loss(batch)
        if self.buffer:
            replayed = self.replay()
            images = np.concatenate([images, replayed.images])
            loss = joined((len(batch), loss), (len(replayed.labels), cross_entropy(replayed.labels)))
        logits = self.descend(images, loss, replayed=len(images) - len(batch))[: len(batch)]
        self.update()
        self.buffer.add(batch)
        return logits
