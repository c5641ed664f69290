"""Learning without Forgetting (Li and Hoiem, 2016)."""

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from sparcl.methods.batch import Batch
from sparcl.methods.losses import Loss, cross_entropy, distillation
from sparcl.methods.old_network import WithOldNetwork
from sparcl.network import Logits
from sparcl.options import NotNegative, Positive, Share


class LearningWithoutForgetting(WithOldNetwork, name="lwf"):
    """CE over the classes seen + alpha * distillation of the past classes from the network before this task.

    From the second task on the classifier first warms up alone, on the new classes, with everything else fixed.

    Deviations: the warm-up takes a share of the task's own steps, where the paper trains the new head to convergence
    first. The old outputs are computed for the augmented images at hand, not once for each image.
    """

    learning_rate: Positive = 0.01
    weight_decay: NotNegative = 5e-4
    alpha: Annotated[NotNegative, "weight of the distillation"] = 1.0
    temperature: Annotated[Positive, "of the distillation"] = 2.0
    warm_up: Annotated[Share, "share of a task's steps that train the classifier alone"] = 0.1

    family = "regularisation"
    reference = "Li and Hoiem, 2016"
    scenarios = ("class-il", "task-il")
    tuned = {"cifar10": {0: {"alpha": 3.0}}, "tiny_imagenet": {0: {"alpha": 1.0}}, "digits": {0: {"alpha": 5.0}}}

    def step(self, batch: Batch) -> Logits:
        if self.old is not None and batch.progress < self.warm_up:
            logits = self.descend(batch.images, cross_entropy(batch.labels, batch.classes), train=False)
            self.update(trainable=self.classifier())
            return logits
        loss = self.classification_loss(batch)
        if self.old is not None:
            past = range(batch.classes.start)
            loss += self.alpha * distillation(self.old_logits(batch.images), past, self.temperature)
        logits = self.descend(batch.images, loss)
        self.update()
        return logits

    def classification_loss(self, batch: Batch) -> Loss:
        return cross_entropy(batch.labels, batch.classes if self.single_head else range(batch.classes.stop))

    def classifier(self) -> NDArray[np.bool_]:
        values, graph = self.network.parameters.values, self.network.graph
        mask = np.zeros(len(values.flat), bool)
        for spec in graph.parameters_of(graph.classifier):
            mask[values.slices[spec.name]] = True
        return mask
