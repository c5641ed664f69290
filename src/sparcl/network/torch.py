"""The torch backend: dense or masked, differentiated by autograd. It is the reference, and the fair dense baseline.

Torch tensors and NumPy arrays share memory: parameters, gradients and statistics live in the flat store, so the
optimizer and checkpoints need not know which backend ran. A sparse weight is made dense for each forward pass, and its
gradients are gathered after each backward pass: correct, and no faster than dense. Everything runs in channels-last
order, the fastest dense float32 layout of PyTorch on CPUs.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sparcl.graph import Graph, Node
from sparcl.network.parameters import FlatStore, Index, Parameters
from sparcl.network.protocol import Features, Images, Logits


class TorchNetwork:
    def __init__(self, graph: Graph, parameters: Parameters) -> None:
        self.graph = graph
        self.parameters = parameters
        self._layout = -1
        consumers = graph.consumers()
        # An activation may overwrite its input when nobody else reads it, and norms and sums never need their outputs.
        self._in_place = {
            node.name
            for node in graph
            if node.op.role == "activation"
            and consumers[node.inputs[0]] == 1
            and graph[node.inputs[0]].op.role in ("norm", "sum")
        }

    def _bind(self) -> None:
        """Take views of the stores; again whenever they were laid out anew."""
        self._layout = self.parameters.layout
        self._values = _as_tensors(self.parameters.values)
        self._statistics = _as_tensors(self.parameters.statistics)
        gradients = _as_tensors(self.parameters.gradients)
        self._sparse: dict[str, _DenseWeight] = {}
        for name, tensor in self._values.items():
            if name in self.parameters.index:
                self._sparse[name] = _DenseWeight(tensor, gradients[name], self.parameters, name)
            elif name not in self.parameters.frozen:  # below the first layer that is trained autograd records nothing
                tensor.requires_grad_()
                tensor.grad = gradients[name]  # autograd adds into an existing .grad in place: into the flat store

    def forward(
        self, images: Images, *, train: bool = True, momentum: float | None = None
    ) -> tuple[Logits, torch.Tensor]:
        logits = self._run(images, train, momentum)
        return logits.detach().numpy(), logits

    def backward(
        self, context: torch.Tensor, d_logits: Logits, dense_gradients: Mapping[str, NDArray[Any]] | None = None
    ) -> None:
        context.backward(torch.from_numpy(np.ascontiguousarray(d_logits)))  # type: ignore[no-untyped-call]
        for name, weight in self._sparse.items():
            if name not in self.parameters.frozen:
                weight.collect(self.parameters.updated.get(name), (dense_gradients or {}).get(name))

    def predict(self, images: Images) -> Logits:
        with torch.no_grad():
            return np.asarray(self._run(images, train=False, momentum=0.0).numpy())

    def release_memory(self) -> None:
        """PyTorch keeps nothing."""

    def features(self, images: Images) -> Features:
        with torch.no_grad():
            made = self._run(images, train=False, momentum=0.0, graph=self.graph.without_classifier())
            return np.asarray(made.numpy())

    def with_parameters(self, parameters: Parameters) -> "TorchNetwork":
        return TorchNetwork(self.graph, parameters)

    def _run(self, images: Images, train: bool, momentum: float | None, graph: Graph | None = None) -> torch.Tensor:
        graph = graph or self.graph
        if self._layout != self.parameters.layout:
            self._bind()
        for weight in self._sparse.values():
            weight.fill()
        outputs: dict[str, torch.Tensor] = {}
        source = torch.from_numpy(images)
        outputs[graph.nodes[0].name] = source.contiguous(memory_format=torch.channels_last)
        for node in graph.nodes[1:]:
            outputs[node.name] = self._compute(node, [outputs[name] for name in node.inputs], train, momentum)
        return outputs[graph.nodes[-1].name]

    def _compute(self, node: Node, inputs: list[torch.Tensor], train: bool, momentum: float | None) -> torch.Tensor:
        return node.op.torch(inputs, _NodePass(self, node, train, momentum))

    def _tensor(self, name: str) -> torch.Tensor | None:
        return self._sparse[name].tensor if name in self._sparse else self._values.get(name)


class _NodePass:
    """A node's view of a forward pass (sparcl.operations.TorchPass)."""

    def __init__(self, network: TorchNetwork, node: Node, train: bool, momentum: float | None) -> None:
        # What is frozen keeps its running statistics.
        self.train = train and f"{node.name}.weight" not in network.parameters.frozen
        self.momentum = momentum
        self.in_place = node.name in network._in_place
        self._network, self._name = network, node.name

    def parameter(self, part: str) -> torch.Tensor | None:
        return self._network._tensor(f"{self._name}.{part}")

    def statistic(self, part: str) -> torch.Tensor:
        return self._network._statistics[f"{self._name}.{part}"]


class _DenseWeight:
    """The dense tensor in which torch sees a sparse weight; it is filled before a forward pass."""

    def __init__(self, values: torch.Tensor, gradients: torch.Tensor, parameters: Parameters, name: str) -> None:
        out, into, height, width = parameters.values.specs[name].shape
        self._values, self._gradients = values, gradients
        memory = torch.zeros(out, height, width, into, dtype=values.dtype)
        self._memory = memory.view(-1)
        self.tensor = memory.permute(0, 3, 1, 2)
        if name not in parameters.frozen:
            gradient_memory = torch.zeros_like(memory)
            self._gradient_memory = gradient_memory.view(-1)
            self._gradient = gradient_memory.permute(0, 3, 1, 2)
            self.tensor.requires_grad_().grad = self._gradient
        # The memory is ordered [out, ky, kx, in]; positions count in the order [out, in, ky, kx].
        o, i, y, x = np.unravel_index(parameters.index[name], (out, into, height, width))
        self._places = torch.from_numpy(np.ravel_multi_index((o, y, x, i), (out, height, width, into)))

    def fill(self) -> None:
        # Through .data: contexts that are still alive saw the same numbers, so autograd need not mind the write.
        self._memory.data[self._places] = self._values

    def collect(self, updated: Index | None, dense_gradient: NDArray[Any] | None) -> None:
        """Move the gradients that autograd left in the dense tensor to the sparse store."""
        if dense_gradient is not None:
            dense_gradient += self._gradient.numpy()
        if updated is None:
            self._gradients += self._gradient_memory[self._places]
        else:
            chosen = torch.from_numpy(updated)
            self._gradients[chosen] += self._gradient_memory[self._places[chosen]]
        self._gradient_memory.zero_()


def _as_tensors(store: FlatStore) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(store[name]) for name in store}


def set_threads(count: int) -> None:
    torch.set_num_threads(count)
