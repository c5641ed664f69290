"""RigL (Evci et al., 2020): drop the smallest weights, grow where the gradient is largest, every `interval` steps.

The share that moves decays with a cosine and reaches zero at `stop` of the training; grown weights start at zero.
Growth needs the gradient at inactive positions, so the backward passes of such a step run dense.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from sparcl.methods import Batch
from sparcl.network import Logits
from sparcl.options import AtLeastOne, Positive, Share
from sparcl.sparsity.masks import random_mask, top_k
from sparcl.sparsity.moment import Moment
from sparcl.sparsity.sparsifier import Sparsifier, SparsifierContext


class RigL(Sparsifier, name="rigl"):
    interval: Annotated[AtLeastOne, "steps between two changes of the mask"] = 100
    drop_fraction: Annotated[Share, "share of the active weights that is exchanged at first"] = 0.3
    stop: Annotated[Positive, "share of the training after which the mask stays"] = 0.75

    def __init__(self, context: SparsifierContext, options: Mapping[str, Any]) -> None:
        super().__init__(context, options)
        self._dense: dict[str, NDArray[Any]] | None = None  # gradients of all positions, while a step gathers them

    def begin_run(self) -> None:
        generator = self.context.generators["masks"]
        self.parameters.set_index(
            {layer.name: random_mask(layer.size, layer.active(), generator) for layer in self.sparse_layers}
        )

    def begin_step(self, moment: Moment) -> None:
        done = moment.total_steps + 1
        due = self.sparse_layers and done % self.interval == 0 and done < self.stop * self.context.total_steps
        self._dense = None
        if due:
            shapes = {name: spec.shape for name, spec in self.parameters.values.specs.items()}
            self._dense = {layer.name: np.zeros(shapes[layer.name], np.float32) for layer in self.sparse_layers}

    def dense_gradients(self) -> Mapping[str, NDArray[Any]] | None:
        return self._dense

    def end_step(self, moment: Moment, batch: Batch, logits: Logits) -> None:
        if self._dense is None:
            return
        done = moment.total_steps + 1
        share = self.drop_fraction / 2 * (1 + math.cos(math.pi * done / (self.stop * self.context.total_steps)))
        changes, moved = {}, {}
        for layer in self.sparse_layers:
            index = self.parameters.index[layer.name]
            kept = index[top_k(np.abs(self.parameters.values[layer.name]), len(index) - round(share * len(index)))]
            wanted = np.abs(self._dense[layer.name]).ravel()
            wanted[kept] = -1.0  # taken already
            grown = top_k(wanted, len(index) - len(kept))
            changes[layer.name] = np.union1d(kept, grown)
            new = int((~np.isin(grown, index)).sum())
            moved[layer.name] = {
                "active": len(index),
                "density": len(index) / layer.size,
                "removed": new,
                "grown": new,
            }
        self.parameters.set_index(changes)
        self.records.append({"adjustment": "drop and grow", "layers": moved})
        self._dense = None
