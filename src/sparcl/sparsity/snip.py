"""SNIP (Lee et al., 2019): one mask, chosen before training by the saliency |w * gradient|, and never changed."""

from typing import Annotated

import numpy as np

from sparcl.data import Task
from sparcl.options import AtLeastOne
from sparcl.sparsity.importance import Probe, mean_gradients
from sparcl.sparsity.masks import top_k
from sparcl.sparsity.moment import Moment
from sparcl.sparsity.sparsifier import Sparsifier


class Snip(Sparsifier, name="snip"):
    """The saliency is measured on batches of the first task, the only data there is at initialisation."""

    saliency_batches: Annotated[AtLeastOne, "batches of the first task that measure the saliency"] = 16

    def begin_run(self) -> None:
        self.parameters.set_index({layer.name: np.arange(layer.size, dtype=np.int32) for layer in self.sparse_layers})

    def begin_task(self, moment: Moment, task: Task) -> None:
        if moment.task > 0 or not self.sparse_layers:
            return
        names = [layer.name for layer in self.sparse_layers]
        batches = Probe(self.context).current(task, task.train, self.saliency_batches, single_head=False)
        gradients = mean_gradients(self.context, names, batches)
        assert gradients is not None
        saliency = {name: np.abs(self.parameters.values[name] * gradients[name]) for name in names}
        self.parameters.set_index(
            {layer.name: top_k(saliency[layer.name], layer.active()) for layer in self.sparse_layers}
        )
        self.records.append({"adjustment": "saliency", "importance_batches": self.saliency_batches})
