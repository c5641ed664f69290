"""What two ways to run a network give, side by side."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparcl.graph import Graph
from sparcl.network import Parameters

TOLERANCE = 1e-4  # of the largest element of a tensor


def copy_of(graph: Graph, parameters: Parameters, dtype: type = np.float32) -> Parameters:
    other = Parameters(graph, dtype)
    other.set_index(dict(parameters.index))
    other.values.flat[...] = parameters.values.flat
    other.gradients.flat[...] = parameters.gradients.flat
    other.statistics.flat[...] = parameters.statistics.flat
    other.updated = dict(parameters.updated)
    return other


def random_batch(graph: Graph, images: int, generator: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
    pictures = generator.normal(size=(images, *graph.input_shape)).astype(np.float32)
    return pictures, generator.normal(size=(images, graph.classes)).astype(np.float32)


def run(network: Any, images: NDArray[Any], d_logits: NDArray[Any], **options: Any) -> NDArray[Any]:
    """Forward and backward; the logits."""
    dtype = network.parameters.values.flat.dtype
    dense = options.pop("dense_gradients", None)
    logits, context = network.forward(images.astype(dtype), **options)
    network.backward(context, d_logits.astype(dtype), dense)
    return logits


@dataclass
class Results:
    """What a network gives: logits, gradients and so on, by name."""

    tensors: dict[str, NDArray[Any]] = field(default_factory=dict)

    def add(self, parameters: Parameters, **others: NDArray[Any]) -> "Results":
        self.tensors |= {f"gradient of {name}": parameters.gradients[name].copy() for name in parameters.gradients}
        self.tensors |= {name: parameters.statistics[name].copy() for name in parameters.statistics}
        self.tensors |= others
        return self

    def scales(self) -> dict[str, float]:
        """What errors of each tensor are relative to: its largest element."""
        largest = {name: float(np.abs(tensor).max(initial=0)) for name, tensor in self.tensors.items()}
        overall = max(largest.values(), default=0.0)
        # Some gradients are what is left when larger ones cancel: of a single weight before a norm; or nothing is left,
        # as of a bias before a norm.
        return {
            name: max(own, (1e-2 if own > 1e-9 * overall else 0.1) * overall) or 1.0 for name, own in largest.items()
        }

    def errors(self, expected: "Results") -> dict[str, float]:
        """Of each tensor, relative to its scale."""
        scales = expected.scales()
        return {
            name: float(np.abs(self.tensors[name] - tensor).max(initial=0)) / scales[name]
            for name, tensor in expected.tensors.items()
        }

    def assert_close(self, expected: "Results", tolerance: float = TOLERANCE) -> None:
        # Not "error > tolerance", which would let NaN pass.
        wrong = {name: error for name, error in self.errors(expected).items() if not error <= tolerance}
        assert not wrong, f"relative errors: {wrong}"
