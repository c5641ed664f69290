"""Dark Experience Replay (Buzzega et al., 2020)."""

from typing import Annotated, ClassVar

from sparcl.methods.batch import Batch
from sparcl.methods.losses import logit_mse
from sparcl.methods.rehearsal import Rehearsal
from sparcl.network import Logits
from sparcl.options import NotNegative


class DarkExperienceReplay(Rehearsal, name="der"):
    """CE(batch) + alpha * MSE(logits now, logits stored)."""

    alpha: Annotated[NotNegative, "weight of matching the stored logits"] = 0.3

    reference = "Buzzega et al., 2020"
    keeps_logits: ClassVar[bool] = True
    tuned = {
        "cifar10": {200: {"alpha": 0.3}, 500: {"alpha": 0.3}},
        "tiny_imagenet": {200: {"alpha": 0.1}, 500: {"alpha": 0.1}},
    }

    def step(self, batch: Batch) -> Logits:
        logits = self.descend(batch.images, self.classification_loss(batch))
        if self.buffer:
            a = self.replay()
            self.descend(a.images, self.alpha * logit_mse(a.logits), replayed=True)
        self.update()
        self.buffer.add(batch, logits)
        return logits
