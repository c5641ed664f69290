"""The torch backend: dense, differentiated by autograd. It is the reference, and the fair dense baseline.

Torch tensors and NumPy arrays share memory: parameters, gradients and statistics live in the flat store, so the
optimizer and checkpoints need not know which backend ran. Everything runs in channels-last order, the fastest dense
float32 layout of PyTorch on CPUs.
"""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from sparcl.graph import Graph, Node
from sparcl.network.parameters import FlatStore, Parameters
from sparcl.network.protocol import BATCH_NORM_EPSILON, BATCH_NORM_MOMENTUM, Images, Logits


class TorchNetwork:
    def __init__(self, graph: Graph, parameters: Parameters) -> None:
        self.graph = graph
        self.parameters = parameters
        self._values = _as_tensors(parameters.values)
        self._statistics = _as_tensors(parameters.statistics)
        gradients = _as_tensors(parameters.gradients)
        for name, tensor in self._values.items():
            tensor.requires_grad_()
            tensor.grad = gradients[name]  # autograd adds into an existing .grad in place: into the flat store
        consumers = graph.consumers()
        # A ReLU may overwrite its input when nobody else reads it, and batch_norm and add never need their outputs.
        self._in_place = {
            node.name
            for node in graph
            if node.op == "relu"
            and consumers[node.inputs[0]] == 1
            and graph[node.inputs[0]].op in ("batch_norm", "add")
        }

    def forward(
        self, images: Images, *, train: bool = True, momentum: float = BATCH_NORM_MOMENTUM
    ) -> tuple[Logits, torch.Tensor]:
        logits = self._run(images, train, momentum)
        return logits.detach().numpy(), logits

    def backward(self, context: torch.Tensor, d_logits: Logits) -> None:
        context.backward(torch.from_numpy(np.ascontiguousarray(d_logits)))  # type: ignore[no-untyped-call]

    def predict(self, images: Images) -> Logits:
        with torch.inference_mode():
            return np.asarray(self._run(images, train=False, momentum=0.0).numpy())

    def _run(self, images: Images, train: bool, momentum: float) -> torch.Tensor:
        outputs: dict[str, torch.Tensor] = {}
        source = torch.from_numpy(images)
        outputs[self.graph.nodes[0].name] = source.contiguous(memory_format=torch.channels_last)
        for node in self.graph.nodes[1:]:
            outputs[node.name] = self._compute(node, [outputs[name] for name in node.inputs], train, momentum)
        return outputs[self.graph.nodes[-1].name]

    def _compute(self, node: Node, inputs: list[torch.Tensor], train: bool, momentum: float) -> torch.Tensor:
        x = inputs[0]
        weight = self._values.get(f"{node.name}.weight")
        bias = self._values.get(f"{node.name}.bias")
        match node.op:
            case "conv":
                assert weight is not None
                return F.conv2d(x, weight, bias, node.stride, node.padding)
            case "batch_norm":
                mean, variance = (self._statistics[f"{node.name}.{part}"] for part in ("running_mean", "running_var"))
                return F.batch_norm(x, mean, variance, weight, bias, train, momentum, BATCH_NORM_EPSILON)
            case "relu":
                return F.relu(x, inplace=node.name in self._in_place)
            case "add":
                return x + inputs[1]
            case "max_pool":
                return F.max_pool2d(x, node.kernel)
            case "global_average_pool":
                return x.mean((2, 3))
            case "linear":
                assert weight is not None
                return F.linear(x, weight, bias)
            case _:
                raise AssertionError(f"the torch backend does not know the operation {node.op!r}")


def _as_tensors(store: FlatStore) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(store[name]) for name in store}


def set_threads(count: int) -> None:
    torch.set_num_threads(count)


def versions() -> dict[str, Any]:
    return {"torch": torch.__version__, "threads": torch.get_num_threads()}
