"""Experience Replay (Rolnick et al., 2019; Riemer et al., 2019)."""

import numpy as np

from sparcl.methods.batch import Batch
from sparcl.methods.losses import cross_entropy
from sparcl.methods.rehearsal import Rehearsal
from sparcl.network import Logits


class ExperienceReplay(Rehearsal, name="er"):
    """One forward over the batch and a replayed batch together; mean cross-entropy over both."""

    learning_rate: float = 0.1

    tuned = {
        "cifar10": {200: {"learning_rate": 0.1}, 500: {"learning_rate": 0.1}},
        "tiny_imagenet": {200: {"learning_rate": 0.1}, 500: {"learning_rate": 0.03}},
    }

    def step(self, batch: Batch) -> Logits:
        images, labels = batch.images, batch.labels
        if self.buffer:
            replayed = self.replay()
            images = np.concatenate([images, replayed.images])
            labels = np.concatenate([labels, replayed.labels])
        logits = self.descend(images, cross_entropy(labels))[: len(batch)]
        self.update()
        self.buffer.add(batch)
        return logits
