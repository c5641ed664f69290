"""Room for new classes: a state with more outputs, and a buffer that keeps to its budget.

What is known stays as it is, bit for bit: old rows of the classifier, masks, statistics, generators. New rows are drawn
as in a new network. Samples in the buffer were stored with the logits of the classes known then. For the new classes
nothing is remembered: NaN marks that, and DER's losses leave those entries out (`methods.losses.logit_mse`), so that a
sample of an old class is held to what was known about it, and learns what it is not from its label (DER++) alone.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparcl.graph import Graph
from sparcl.tensor_files import Tensors

BUFFER = "method.buffer."
PER_SAMPLE = ("images", "labels", "tasks", "logits")


def grow(tensors: Tensors, graph: Graph, outputs: int, generator: np.random.Generator) -> Tensors:
    """The tensors of a state whose network was `graph`, for a network with more `outputs`."""
    weight, bias = (f"parameters.{spec.name}" for spec in graph.parameters_of(graph.classifier))
    known, features = tensors[weight].shape
    if tensors[bias].shape != (known,) or known != graph.classes or outputs < known:
        raise ValueError("the classifier does not fit the network")
    added = outputs - known
    bound = features**-0.5
    grown = dict(tensors)
    grown[weight] = np.concatenate([tensors[weight], _uniform(generator, bound, (added, features))])
    grown[bias] = np.concatenate([tensors[bias], _uniform(generator, bound, (added,))])
    logits = tensors[f"{BUFFER}logits"]
    if logits.ndim != 2 or logits.shape[1] not in (0, known):
        raise ValueError("the buffer's logits do not fit the network")
    if logits.shape[1]:
        unknown = np.full((len(logits), added), np.nan, logits.dtype)
        grown[f"{BUFFER}logits"] = np.concatenate([logits, unknown], axis=1)
    return grown


def shrink_buffer(tensors: Tensors, capacity: int, generator: np.random.Generator) -> Tensors:
    """At most `capacity` samples. A random part of a random sample of everything seen is one again."""
    count = len(tensors[f"{BUFFER}labels"])
    if count <= capacity:
        return tensors
    chosen = generator.choice(count, capacity, replace=False)
    kept = {f"{BUFFER}{name}": tensors[f"{BUFFER}{name}"][chosen] for name in PER_SAMPLE}
    return {**tensors, **kept}


def _uniform(generator: np.random.Generator, bound: float, shape: tuple[int, ...]) -> NDArray[Any]:
    return generator.uniform(-bound, bound, shape).astype(np.float32)
