"""Fine-tuning without any protection: the lower bound."""

from sparcl.methods.batch import Batch
from sparcl.methods.method import Method
from sparcl.network import Logits


class FineTuning(Method, name="sgd"):
    """Plain gradient descent on each task in turn; forgets the earlier ones."""

    family = "bound"

    def step(self, batch: Batch) -> Logits:
        logits = self.descend(batch.images, self.classification_loss(batch))
        self.update()
        return logits
