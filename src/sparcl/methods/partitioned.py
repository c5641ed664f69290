"""Methods that give each task weights of its own, for good: what a task has learned can never be forgotten.

    owner of a weight   FREE, or the task that holds it; the rows of the classifier go to the task of their class
    normalisation       every task has its own: scale, shift and running statistics

A task learns on the free weights, beside those of the tasks before it, which it may use and never changes. When the
pruning is due it keeps its share of each layer and gives the others back. To predict for a task one must know which one
it is, so there is only Task-IL. Everything is stored dense: on either backend a run costs what a dense one costs.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparcl.data import Task
from sparcl.errors import SparclError
from sparcl.methods.method import Method, MethodContext
from sparcl.network import FlatStore, Images, Logits, Network
from sparcl.network.parameters import top_k
from sparcl.options import Share

FREE = -1
Mask = NDArray[np.bool_]  # over the flat values


class Partitioned(Method):
    retrain: Annotated[Share, "share of a task's steps after the pruning"] = 0.3
    single_head: ClassVar[bool] = True  # type: ignore[misc]  # no choice: the task is known

    family = "architecture"
    scenarios = ("task-il",)
    sparsifier_conflict = "it hands out the weights itself"

    def __init__(self, context: MethodContext, hyperparameters: Mapping[str, Any]) -> None:
        super().__init__(context, hyperparameters)
        values, graph = self.network.parameters.values, self.network.graph
        head = {spec.name for spec in graph.parameters_of(graph.classifier)}
        self.divided = [name for name in values if len(values.specs[name].shape) > 1 and name not in head]
        self.owner = FlatStore(list(values.specs.values()), np.int16)
        self.owner.flat[...] = FREE
        self.of_each_task = self._mask([name for name in values if name not in head and name not in self.divided])
        self.dividable = self._mask(self.divided)
        self.stored = np.zeros_like(values.flat)  # the numbers of all weights that have an owner
        self.norms: dict[int, tuple[NDArray[Any], NDArray[Any]]] = {}  # of each finished task: values, statistics
        self.task = 0
        self.pruned = False
        self._trainable: Mask | None = None
        self._reader: Network | None = None  # the network with the weights of the task `_read`
        self._read = FREE
        self._check_capacity()

    @abstractmethod
    def shares(self, size: int) -> list[int]:
        """How many of a layer's weights each task gets."""

    def _check_capacity(self) -> None:
        for name in self.divided:
            size = self.network.parameters.values.specs[name].size
            for task, share in enumerate(self.shares(size)):
                if share < 1:
                    raise SparclError(
                        f"{self.name} has no weights left for task {task + 1} of {self.context.tasks}: "
                        f"{name} has {size} in all. Choose a wider network or fewer tasks."
                    )

    def begin_task(self, task: Task) -> None:
        super().begin_task(task)
        self.task, self.pruned = task.index, False
        graph = self.network.graph
        for spec in graph.parameters_of(graph.classifier):
            self.owner[spec.name][task.classes.start : task.classes.stop] = task.index
        self._trainable = None

    def trainable(self) -> Mask:
        """What the current task may change: its own, its normalisation, and until the pruning everything free."""
        if self._trainable is None:
            free = self.dividable & (self.owner.flat == FREE) & (not self.pruned)
            self._trainable = free | self.of_each_task | (self.owner.flat == self.task)
        return self._trainable

    def prune(self) -> None:
        """Keep the largest free weights of each layer, as many as the task may have; the others become zero."""
        values = self.network.parameters.values
        for name in self.divided:
            where = values.slices[name]
            free = self.owner.flat[where] == FREE
            sizes = np.where(free, np.abs(values.flat[where]), -1)
            kept = top_k(sizes, self.share_of(name))
            self.owner.flat[where][kept] = self.task
            free[kept] = False
            values.flat[where][free] = 0
        self.pruned, self._trainable = True, None

    def share_of(self, name: str) -> int:
        return self.shares(self.network.parameters.values.specs[name].size)[self.task]

    def end_task(self, task: Task) -> None:
        if not self.pruned:
            self.prune()
        parameters = self.network.parameters
        own = self.owner.flat == task.index
        self.stored[own] = parameters.values.flat[own]
        self.norms[task.index] = (parameters.values.flat[self.of_each_task], parameters.statistics.flat.copy())

    def used_by(self, task: int) -> Mask:
        """The owned weights with which a finished task predicts."""
        return np.asarray((self.owner.flat != FREE) & (self.owner.flat <= task))

    def predict(self, images: Images, task: Task) -> Logits:
        if task.index not in self.norms:
            return self.network.predict(images)
        if self._reader is None:
            self._reader = self.network.with_parameters(self.network.parameters.copy())
        if self._read != task.index:
            parameters = self._reader.parameters
            parameters.values.flat[...] = np.where(self.used_by(task.index), self.stored, 0)
            parameters.values.flat[self.of_each_task], parameters.statistics.flat[...] = self.norms[task.index]
            self._read = task.index
        return self._reader.predict(images)

    def _mask(self, names: list[str]) -> Mask:
        mask = np.zeros(len(self.network.parameters.values.flat), bool)
        for name in names:
            mask[self.network.parameters.values.slices[name]] = True
        return mask

    def state(self) -> dict[str, NDArray[Any]]:
        norms = {f"norm_values.{task}": values for task, (values, _) in self.norms.items()}
        norms |= {f"norm_statistics.{task}": statistics for task, (_, statistics) in self.norms.items()}
        own = {"owner": self.owner.flat, "stored": self.stored, "pruned": np.array([self.pruned])}
        return super().state() | own | norms

    def restore(self, state: dict[str, NDArray[Any]], task: int) -> None:
        super().restore(state, task)
        self.task, self.pruned = task, bool(state["pruned"][0])
        self.owner.flat[...], self.stored[...] = state["owner"], state["stored"]
        finished = [int(key.removeprefix("norm_values.")) for key in state if key.startswith("norm_values.")]
        self.norms = {task: (state[f"norm_values.{task}"], state[f"norm_statistics.{task}"]) for task in finished}
        shapes = (self.of_each_task.sum(),), self.network.parameters.statistics.flat.shape
        if any((values.shape, statistics.shape) != shapes for values, statistics in self.norms.values()):
            raise ValueError("the normalisation of a task does not fit the network")
        self._trainable, self._read = None, FREE
