"""Learn-Prune-Share (Wang et al., 2020)."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparcl.data import Task
from sparcl.methods.batch import Batch
from sparcl.methods.method import MethodContext
from sparcl.methods.partitioned import FREE, Mask, Partitioned
from sparcl.network import Logits
from sparcl.network.parameters import top_k
from sparcl.options import AtLeastOne, Positive


class LearnPruneShare(Partitioned, name="lps"):
    """A task's own weights W are found by ADMM; of the earlier tasks' weights it selects which ones it uses.

        W <- descent on CE + rho/2 |W - Z + U|^2       Z <- W + U, all but the largest set to zero       U <- U + W - Z

    After the last of these the smallest weights are removed for good and the others retrained. The selection is a
    binary mask: score > threshold, its scores learned together with W by the straight-through gradient.

    Deviations: every task gets an equal part of each layer. The gradient of a score is taken in units of the mean size
    of its layer's weights, so that scores of all layers move alike. Every task has its own normalisation. ADMM, pruning
    and retraining are parts of the task's epochs.
    """

    rho: Annotated[Positive, "pull towards the pruned weights; the fewer steps a task has, the larger it must be"] = 0.5
    iterations: Annotated[AtLeastOne, "updates of the pruned weights and duals until the pruning"] = 5

    reference = "Wang et al., 2020"
    tuned = {"cifar10": {0: {"rho": 0.2}}, "tiny_imagenet": {0: {"rho": 0.2}}, "digits": {0: {"rho": 2.0}}}
    first_score: ClassVar[float] = 0.01  # everything is selected at first
    threshold: ClassVar[float] = 0.005

    def __init__(self, context: MethodContext, hyperparameters: Mapping[str, Any]) -> None:
        super().__init__(context, hyperparameters)
        self.z, self.u = np.zeros_like(self.stored), np.zeros_like(self.stored)
        self.iteration = 0
        self.selected: dict[int, Mask] = {}  # of each finished task, among the weights shared with it
        self._look_around(0)
        self.scores = np.zeros(0, np.float32)  # of the shared weights

    def shares(self, size: int) -> list[int]:
        tasks = self.context.tasks
        return [size // tasks] * (tasks - 1) + [size // tasks + size % tasks]

    def begin_task(self, task: Task) -> None:
        super().begin_task(task)
        self._look_around(task.index)
        self.scores = np.full(len(self.shared), self.first_score, np.float32)
        self.use_selection()
        self.u[...], self.iteration = 0, 0
        self.z[...] = self.projected(self.network.parameters.values.flat)

    def step(self, batch: Batch) -> Logits:
        if not self.pruned and batch.progress >= 1 - self.retrain:
            self.prune()
        elif not self.pruned and batch.progress >= (self.iteration + 1) / (self.iterations + 1) * (1 - self.retrain):
            self.update_z_and_u()
        values, gradients = self.network.parameters.values.flat, self.network.parameters.gradients.flat
        logits = self.descend(batch.images, self.classification_loss(batch))
        by_score = gradients[self.shared] * self.units
        if not self.pruned:
            gradients[self.free] += self.rho * (values - self.z + self.u)[self.free]
        self.update(self.trainable())
        self.scores -= self.optimizer.rate * by_score
        self.use_selection()
        return logits

    def selection(self) -> Mask:
        return np.asarray(self.scores > self.threshold)

    def use_selection(self) -> None:
        self.network.parameters.values.flat[self.shared] = self.stored[self.shared] * self.selection()

    def update_z_and_u(self) -> None:
        weights = self.network.parameters.values.flat
        self.z[...] = self.projected(weights + self.u)
        self.u[self.free] += (weights - self.z)[self.free]
        self.iteration += 1

    def projected(self, weights: NDArray[Any]) -> NDArray[Any]:
        """The nearest weights of which each layer has no more than its share: the largest stay, the others are zero."""
        projection = np.zeros_like(weights)
        for name in self.divided:
            where = self.owner.slices[name]
            sizes = np.where(self.owner.flat[where] == FREE, np.abs(weights[where]), -1)
            kept = top_k(sizes, self.share_of(name))
            projection[where][kept] = weights[where][kept]
        return projection

    def residual(self) -> float:
        """How far the free weights still are from what a pruning would leave of them, relative to their size."""
        weights = self.network.parameters.values.flat[self.free]
        return float(np.linalg.norm(weights - self.z[self.free]) / np.maximum(np.linalg.norm(weights), 1e-12))

    def end_task(self, task: Task) -> None:
        super().end_task(task)
        self.selected[task.index] = self.selection()

    def used_by(self, task: int) -> Mask:
        used = super().used_by(task)
        used[self._earlier_than(task)] = self.selected[task]
        return used

    def _look_around(self, task: int) -> None:
        """What a task finds: the free weights, and those it shares with units in which scores are measured."""
        self.free = np.flatnonzero(self.dividable & (self.owner.flat == FREE))
        self.shared = self._earlier_than(task)
        units = self.stored.copy()
        for name in self.divided:
            where = self.owner.slices[name]
            sizes = np.abs(units[where][units[where] != 0])
            units[where] /= sizes.mean() if len(sizes) else 1
        self.units = units[self.shared]

    def _earlier_than(self, task: int) -> NDArray[np.int64]:
        return np.flatnonzero(self.dividable & (self.owner.flat != FREE) & (self.owner.flat < task))

    def state(self) -> dict[str, NDArray[Any]]:
        admm = {"z": self.z, "u": self.u, "scores": self.scores, "iteration": np.array([self.iteration])}
        return super().state() | admm | {f"selected.{task}": mask for task, mask in self.selected.items()}

    def restore(self, state: dict[str, NDArray[Any]], task: int) -> None:
        super().restore(state, task)
        self._look_around(task)
        self.z[...], self.u[...], self.scores = state["z"], state["u"], state["scores"].copy()
        self.iteration = int(state["iteration"][0])
        prefix = "selected."
        self.selected = {int(key.removeprefix(prefix)): state[key] for key in state if key.startswith(prefix)}
        if any(len(mask) != len(self._earlier_than(task)) for task, mask in self.selected.items()):
            raise ValueError("the selection does not fit the weights")
