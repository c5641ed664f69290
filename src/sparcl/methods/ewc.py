"""Elastic Weight Consolidation, online (Kirkpatrick et al., 2017; Schwarz et al., 2018)."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparcl.data import Task
from sparcl.methods.batch import Batch
from sparcl.methods.losses import cross_entropy
from sparcl.methods.method import Method, MethodContext
from sparcl.network import FlatStore, Logits
from sparcl.options import AtLeastOne, NotNegative


class OnlineEwc(Method, name="ewc"):
    """CE(batch) + lambda * sum of F (w - w*)^2, F <- gamma F + Fisher information of the task that has ended.

    Deviations: `lambda` is spelt `strength`, since Python has taken the word. The Fisher information is the empirical
    one, at the true labels, over un-augmented images with running batch statistics. No penalty pulls a weight beyond
    w*: with few epochs F can be so large that plain gradient descent would diverge. A sparse weight that is removed and
    grown again starts without a penalty.
    """

    strength: Annotated[NotNegative, "weight of the penalty (lambda in the paper)"] = 10.0
    gamma: Annotated[NotNegative, "how much of the earlier Fisher information stays"] = 1.0
    fisher_samples: Annotated[AtLeastOne | None, "samples that measure it, spread over the task; None: all"] = None

    family = "regularisation"
    reference = "Kirkpatrick et al., 2017; Schwarz et al., 2018"
    closing_passes: ClassVar[int] = 3
    tuned = {
        "cifar10": {0: {"strength": 10.0, "gamma": 1.0}},
        "tiny_imagenet": {0: {"strength": 25.0, "gamma": 1.0}},
    }

    def __init__(self, context: MethodContext, hyperparameters: Mapping[str, Any]) -> None:
        super().__init__(context, hyperparameters)
        self.fisher: FlatStore | None = None  # None until a task has ended
        self.anchor: FlatStore | None = None  # w*
        self._layout = -1  # of the parameters, to which both are aligned

    def step(self, batch: Batch) -> Logits:
        logits = self.descend(batch.images, self.classification_loss(batch))
        self.add_penalty()
        self.update()
        return logits

    def add_penalty(self) -> None:
        self.align()
        if self.fisher is None or self.anchor is None:
            return
        parameters = self.network.parameters
        moved = parameters.values.flat - self.anchor.flat
        # Where the penalty is so steep that a step would jump beyond w*, it leads to w* and no further.
        stiffness = np.minimum(2 * self.strength * self.fisher.flat, 1 / self.learning_rate)
        parameters.add_gradients(stiffness * moved)
        self.loss += float(0.5 * (stiffness * moved) @ moved)

    def end_task(self, task: Task) -> None:
        information = self.fisher_information(task)
        self.align()
        if self.fisher is not None:
            information.flat += np.asarray(self.gamma, information.flat.dtype) * self.fisher.flat
        values = self.network.parameters.values
        self.fisher, self.anchor = information, values.moved_to(values.index)
        self._layout = self.network.parameters.layout

    def fisher_information(self, task: Task) -> FlatStore:
        """Mean over the samples, one by one, of the squared gradient of log p(label)."""
        parameters = self.network.parameters
        samples = task.train
        if self.fisher_samples is not None:
            count = min(self.fisher_samples, len(samples))
            samples = samples.select(np.linspace(0, len(samples) - 1, count).astype(np.int64))
        masked, parameters.updated = parameters.updated, {}
        information = parameters.gradients.moved_to(parameters.index)  # all zero: no step is under way
        gradients = parameters.gradients.flat
        try:
            for sample in range(len(samples)):
                self.context.poll()
                image = self.context.augmentation.test(samples.images, samples.positions[sample : sample + 1])
                logits, context = self.network.forward(image, train=False)
                self.network.backward(context, cross_entropy(samples.labels[sample : sample + 1])(logits)[1])
                np.multiply(gradients, gradients, out=gradients)
                information.flat += gradients
                gradients[...] = 0.0
        finally:
            parameters.updated = masked
        self.watcher.extra_pass(len(samples), self.network, backward=True)
        information.flat /= len(samples)
        return information

    def weights_moved(self) -> None:
        self.align()

    def align(self) -> None:
        """Follow the active weights: those that are new have no past to keep to."""
        parameters = self.network.parameters
        if self.fisher is not None and self.anchor is not None and self._layout != parameters.layout:
            self.fisher = self.fisher.moved_to(parameters.index)
            self.anchor = self.anchor.moved_to(parameters.index)
        self._layout = parameters.layout

    def state(self) -> dict[str, NDArray[Any]]:
        self.align()
        if self.fisher is None or self.anchor is None:
            return super().state()
        return super().state() | {"fisher": self.fisher.flat, "anchor": self.anchor.flat}

    def restore(self, state: dict[str, NDArray[Any]], task: int) -> None:
        super().restore(state, task)
        if "fisher" in state:
            values = self.network.parameters.values
            self.fisher, self.anchor = values.moved_to(values.index), values.moved_to(values.index)
            self.fisher.flat[...], self.anchor.flat[...] = state["fisher"], state["anchor"]
            self._layout = self.network.parameters.layout
