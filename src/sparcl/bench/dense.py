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

if TYPE_CHECKING:
    import torch

BF16 = "bf16"
NEEDS_TORCH = 'The comparison needs PyTorch: pip install "sparcl-edge[torch]". Shown is our side only.'


def available() -> bool:
    return importlib.util.find_spec("torch") is not None


def module_of(graph: Graph) -> "torch.nn.Module":
    """The graph as an ordinary module of torch.nn layers, with PyTorch's default initialisation."""
    import torch.fx

    steps = torch.fx.Graph()
    made = {graph.nodes[0].name: steps.placeholder("images")}
    layers: dict[str, torch.nn.Module] = {}
    for node in graph.nodes[1:]:
        inputs = tuple(made[name] for name in node.inputs)
        if node.op == "add":
            made[node.name] = steps.call_function(operator.add, inputs)
        elif node.op == "global_average_pool":
            made[node.name] = steps.call_method("mean", (*inputs, (2, 3)))
        else:
            layers[node.name] = _layer(graph, node)
            made[node.name] = steps.call_module(node.name, inputs)
    steps.output(made[graph.nodes[-1].name])
    return torch.fx.GraphModule(layers, steps)


def _layer(graph: Graph, node: Node) -> "torch.nn.Module":
    from torch import nn

    source = graph[node.inputs[0]]
    match node.op:
        case "conv":
            return nn.Conv2d(source.shape[0], node.shape[0], node.kernel, node.stride, node.padding, bias=node.bias)
        case "batch_norm":
            return nn.BatchNorm2d(node.shape[0])
        case "relu":
            alone = graph.consumers()[source.name] == 1
            return nn.ReLU(inplace=alone and source.op in ("batch_norm", "add"))
        case "max_pool":
            return nn.MaxPool2d(node.kernel)
        case "linear":
            return nn.Linear(source.shape[0], node.shape[0])
        case _:
            raise AssertionError(f"there is no layer for {node.op!r}")


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
    stride, padding = [node.stride] * 2, [node.padding] * 2
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
