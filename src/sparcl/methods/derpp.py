"""Dark Experience Replay++ (Buzzega et al., 2020)."""

from typing import ClassVar

from sparcl.methods.batch import Batch
from sparcl.methods.losses import cross_entropy, logit_mse
from sparcl.methods.rehearsal import Rehearsal
from sparcl.network import Logits
from sparcl.options import NotNegative


class DarkExperienceReplayPlusPlus(Rehearsal, name="derpp"):
    """CE(batch) + alpha * MSE(logits of replay A) + beta * CE(replay B), two independent draws, three forwards."""

    alpha: NotNegative = 0.1
    beta: NotNegative = 0.5

    reference = "Buzzega et al., 2020"
    keeps_logits: ClassVar[bool] = True
    replay_passes: ClassVar[int] = 2
    tuned = {
        "cifar10": {200: {"alpha": 0.1, "beta": 0.5}, 500: {"alpha": 0.2, "beta": 0.5}},
        "tiny_imagenet": {200: {"alpha": 0.1, "beta": 1.0}, 500: {"alpha": 0.2, "beta": 0.5}},
    }

    def step(self, batch: Batch) -> Logits:
        logits = self.descend(batch.images, self.classification_loss(batch))
        if self.buffer:
            a, b = self.replay(), self.replay()
            self.descend(a.images, self.alpha * logit_mse(a.logits))
            self.descend(b.images, self.beta * cross_entropy(b.labels))
        self.update()
        self.buffer.add(batch, logits)
        return logits
