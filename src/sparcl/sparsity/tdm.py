"""Task-aware dynamic masking: the active weights move with the tasks, and their number stays what it shall be.

    task 1      stage 1 ── shrink to s+p_intra, expand to s ── stage 2 ── ... ── last stage (nothing new is grown)
    task t > 1  expand to s-p_inter ── stage 1 ── shrink to s ── then as above

The printed algorithm would expand again in every epoch; the text says once, at the task's start, which is done here.
In a layer of sparsity 0 there is nothing to choose, and nothing is changed.
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparcl.data import Samples, Task
from sparcl.metrics.schedule import capped_importance_batches
from sparcl.network.parameters import Index, find
from sparcl.sparsity.importance import Probe, mean_gradients, weighted_sum
from sparcl.sparsity.layers import Layer
from sparcl.sparsity.masks import grow_randomly, random_mask, shrink, top_k
from sparcl.sparsity.sparsifier import SparsifierContext

InitialMask = Literal["random", "magnitude"]


class TaskAwareMasks:
    def __init__(
        self,
        context: SparsifierContext,
        layers: list[Layer],
        *,
        alpha: float,
        beta: float,
        p_inter: float,
        p_intra: float,
        importance_batches: int,
        initial_mask: InitialMask,
    ) -> None:
        self._context, self._layers = context, layers
        self._parameters = context.network.parameters
        self._alpha, self._beta = alpha, beta
        self._p_inter, self._p_intra = p_inter, p_intra
        self._importance_batches = importance_batches
        self._initial_mask = initial_mask
        self._probe = Probe(context)
        self._generator = context.generators["masks"]
        self.born: dict[str, NDArray[np.int16]] = {}  # the adjustment at which each active weight was grown; 0: never
        self.adjustments = 0

    def begin_run(self) -> None:
        index = {}
        for layer in self._layers:
            if self._initial_mask == "random":
                index[layer.name] = random_mask(layer.size, layer.active(), self._generator)
            else:
                weights = np.abs(self._parameters.values.dense(layer.name)).ravel()
                index[layer.name] = top_k(weights, layer.active())
        self._set(index)

    def begin_later_task(self) -> dict[str, Any] | None:
        """Room for the new task: random unused weights join for the first stage."""
        return self.expand(-self._p_inter)

    def end_stage(self, task: Task, samples: Samples, expanded: bool, last: bool, passes: int) -> dict[str, Any] | None:
        """`expanded`: the stage had room for a new task. `passes`: over batches, in the stage that ends."""
        if not self._layers or (last and not expanded):
            return None
        terms = 2 if self._probe.has_buffer() else 1
        batches = capped_importance_batches(self._importance_batches, passes, terms)
        importance = self.importance(task, samples, batches)
        before = dict(self._parameters.index)
        kept = self._shrink(importance, 0.0 if last else self._p_intra)
        if not last:  # a change of its own: what was removed and grows again starts from zero too
            self._grow(0.0)
        return self._record("shrink" if last else "shrink and expand", before, kept, batches)

    def expand(self, offset: float) -> dict[str, Any] | None:
        if not self._layers:
            return None
        before = dict(self._parameters.index)
        self._grow(offset)
        return self._record("expand", before, before, 0)

    def shrink_back(self, importance: dict[str, NDArray[Any]]) -> dict[str, Any]:
        """Take back a growth: the least important go until the sparsity is what it shall be."""
        before = dict(self._parameters.index)
        return self._record("shrink", before, self._shrink(importance, 0.0), 0)

    def importance(self, task: Task, samples: Samples, batches: int) -> dict[str, NDArray[Any]]:
        """CWI of every active weight."""
        names = [layer.name for layer in self._layers]
        current = mean_gradients(self._context, names, self._probe.current(task, samples, batches, single_head=True))
        buffered = mean_gradients(self._context, names, self._probe.buffer(batches))
        gradients = weighted_sum(names, [(self._alpha, current), (self._beta, buffered)])
        return {name: np.abs(self._parameters.values[name]) + gradients[name] for name in names}

    def _shrink(self, importance: dict[str, NDArray[Any]], offset: float) -> dict[str, Index]:
        index = self._parameters.index
        self._set(
            {
                layer.name: shrink(index[layer.name], importance[layer.name], layer.active(offset))
                for layer in self._layers
                if layer.sparsity > 0
            }
        )
        return dict(self._parameters.index)

    def _grow(self, offset: float) -> None:
        index = self._parameters.index
        self._set(
            {
                layer.name: grow_randomly(index[layer.name], layer.size, layer.active(offset), self._generator)
                for layer in self._layers
            }
        )

    def _set(self, index: dict[str, Index]) -> None:
        """Change the masks and remember when each weight was grown."""
        for name, positions in index.items():
            first = name not in self.born
            born = np.full(len(positions), 0 if first else self.adjustments + 1, np.int16)
            if not first:
                stayed, places = find(positions, self._parameters.index[name])
                born[stayed] = self.born[name][places[stayed]]
            self.born[name] = born
        self._parameters.set_index(index)
        self._context.method.weights_moved()

    def _record(self, what: str, before: dict[str, Index], kept: dict[str, Index], batches: int) -> dict[str, Any]:
        """What an adjustment did, layer by layer. `kept`: what was there all the time."""
        self.adjustments += 1
        after = self._parameters.index
        layers = {}
        for layer in self._layers:
            ages, counts = np.unique(self.adjustments - self.born[layer.name], return_counts=True)
            layers[layer.name] = {
                "active": len(after[layer.name]),
                "density": len(after[layer.name]) / layer.size,
                "removed": len(before[layer.name]) - len(kept[layer.name]),
                "grown": len(after[layer.name]) - len(kept[layer.name]),
                "survivors_by_age": {str(age): int(count) for age, count in zip(ages, counts, strict=True)},
            }
        return {"adjustment": what, "importance_batches": batches, "layers": layers}
