"""The dense side: the same network in plain PyTorch, in every form in which it may be the fastest.

Steps are made in the process of a contender: PyTorch may choose instructions on which the processor traps.

Torch is imported inside the functions: the package must be importable on devices without it.
"""

import importlib.util
import operator
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from sparcl.bench.contender import Side
from sparcl.bench.timing import Step
from sparcl.bench.workload import LEARNING_RATE, Kind, Workload
from sparcl.graph import Graph, Node
from sparcl.network.parameters import Parameters
from sparcl.operations import Conv, Dropout

if TYPE_CHECKING:
    import torch

BF16 = "bf16"
NEEDS_TORCH = 'The comparison needs PyTorch: pip install "sparcl-edge[torch]". Shown is our side only.'


def available() -> bool:
    return importlib.util.find_spec("torch") is not None


def module_of(graph: Graph) -> "torch.nn.Module":
    """The graph as a module of PyTorch, with the initial values that the graph's operations give."""
    import torch

    parameters = Parameters(graph)
    parameters.initialise(graph, np.random.default_rng(0))
    consumers = graph.consumers()

    class NodePass:
        """A node's view of a forward pass (sparcl.operations.TorchPass)."""

        momentum: float | None = None

        def __init__(self, module: "GraphModule", node: Node) -> None:
            self._module, self._name = module, node.name
            self.train = module.training
            source = graph[node.inputs[0]]
            self.in_place = consumers[source.name] == 1 and source.op.role in ("norm", "sum")

        def parameter(self, part: str) -> torch.Tensor | None:
            owned = f"{self._name}.{part}"
            return operator.attrgetter(owned)(self._module) if owned in parameters.values.specs else None

        def statistic(self, part: str) -> torch.Tensor:
            found: torch.Tensor = operator.attrgetter(f"{self._name}.{part}")(self._module)
            return found

    class GraphModule(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name in parameters.values:
                values = torch.from_numpy(np.ascontiguousarray(parameters.values[name]))
                self._owner(name).register_parameter(name.rpartition(".")[2], torch.nn.Parameter(values))
            for name in parameters.statistics:
                statistics = torch.from_numpy(parameters.statistics[name].copy())
                self._owner(name).register_buffer(name.rpartition(".")[2], statistics)

        def _owner(self, name: str) -> torch.nn.Module:
            """The module inside of this one that a dotted name belongs to."""
            owner: torch.nn.Module = self
            for part in name.split(".")[:-1]:
                if part not in dict(owner.named_children()):
                    owner.add_module(part, torch.nn.Module())
                owner = owner.get_submodule(part)
            return owner

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            outputs = {graph.nodes[0].name: images}
            for node in graph.nodes[1:]:
                inputs = [outputs[name] for name in node.inputs]
                if isinstance(node.op, Dropout):  # PyTorch's own: ours draws in NumPy, which it could not compile
                    kept = torch.nn.functional.dropout(inputs[0], node.op.probability, self.training)
                    outputs[node.name] = kept
                else:
                    outputs[node.name] = node.op.torch(inputs, NodePass(self, node))
            return outputs[graph.nodes[-1].name]

    return GraphModule()


def variants(kind: Kind, work: Workload, threads: int, compiled: bool) -> list[Side]:
    """Everything that may be PyTorch's fastest, and bf16."""
    names = ["contiguous", "channels_last"]
    names += ["frozen"] if kind == "infer" else []
    names += ["compiled"] if compiled else []
    make = training_step if kind == "train" else prediction
    return [
        Side(name, f"PyTorch {name}", make, {"work": work, "threads": threads, "variant": name})
        for name in (*names, BF16)
    ]


def training_step(work: Workload, threads: int, variant: str) -> Step:
    """Forward, cross-entropy, backward and gradient descent."""
    import torch

    module, images = _module_and_images(work, threads, variant)
    labels = torch.from_numpy(work.labels())
    optimizer = torch.optim.SGD(module.parameters(), LEARNING_RATE)
    run = _compile(module) if variant == "compiled" else module
    in_bf16 = variant == BF16

    def step() -> float:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=in_bf16):
            loss = torch.nn.functional.cross_entropy(run(images), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss.item()

    return step


def prediction(work: Workload, threads: int, variant: str) -> "Callable[[], torch.Tensor]":
    """Logits in evaluation mode, without a record for autograd."""
    import torch

    module, images = _module_and_images(work, threads, variant)
    module.eval()
    run: Callable[[torch.Tensor], torch.Tensor] = module
    if variant == "compiled":
        run = _compile(module)
    elif variant == "frozen":
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # TorchScript calls itself outdated, but it is fast
            traced = torch.jit.trace(module, images)  # type: ignore[no-untyped-call]
            run = torch.jit.optimize_for_inference(torch.jit.freeze(traced))
    in_bf16 = variant == BF16

    def step() -> torch.Tensor:
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=in_bf16):
            return run(images)

    return step


def convolution_pass(work: Workload, threads: int, layer: str, op: str) -> Step:
    """One pass of one convolution, in channels-last order."""
    import torch

    torch.set_num_threads(threads)
    graph, random = work.graph(), np.random.default_rng(3)
    node = graph[layer]

    def tensor(shape: tuple[int, ...]) -> torch.Tensor:
        numbers = torch.from_numpy(random.normal(size=shape).astype(np.float32))
        return numbers.contiguous(memory_format=torch.channels_last)

    x = tensor((work.batch, *graph[node.inputs[0]].shape))
    weight, dy = tensor(graph.parameters_of(node)[0].shape), tensor((work.batch, *node.shape))
    assert isinstance(node.op, Conv)
    stride, padding = [node.op.stride] * 2, [node.op.padding] * 2
    if op == "convolve":
        return lambda: torch.ops.aten.convolution(x, weight, None, stride, padding, [1, 1], False, [0, 0], 1)
    wanted = [op == "data_gradient", op == "weight_gradient", False]
    return lambda: torch.ops.aten.convolution_backward(
        dy, x, weight, None, stride, padding, [1, 1], False, [0, 0], 1, wanted
    )


def _module_and_images(work: Workload, threads: int, variant: str) -> "tuple[torch.nn.Module, torch.Tensor]":
    import torch

    torch.set_num_threads(threads)
    module, images = module_of(work.graph()), torch.from_numpy(work.images())
    if variant == "contiguous":
        return module, images
    module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return module, images.contiguous(memory_format=torch.channels_last)


def _compile(module: "torch.nn.Module") -> Callable[..., "torch.Tensor"]:
    import torch

    return torch.compile(module, dynamic=False)
