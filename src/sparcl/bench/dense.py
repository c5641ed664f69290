"""The dense side: the same network in plain PyTorch, in every form in which it may be the fastest.

Torch is imported inside the functions: the package must be importable on devices without it.
"""

import importlib.util
import operator
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

from sparcl.bench.timing import Step
from sparcl.bench.workload import LEARNING_RATE, Workload
from sparcl.graph import Graph, Node

if TYPE_CHECKING:
    import torch

Note = Callable[[str], None]
BF16 = "bf16"
NEEDS_TORCH = 'The comparison needs PyTorch: pip install "sparcl-edge[torch]". Shown is our side only.'


def available() -> bool:
    return importlib.util.find_spec("torch") is not None


def set_threads(count: int) -> None:
    import torch

    torch.set_num_threads(count)


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


def training_steps(work: Workload, compiled: bool, note: Note) -> dict[str, Step]:
    """A step with forward, cross-entropy, backward and gradient descent in every variant."""
    steps = {"contiguous": _training_step(work, "contiguous"), "channels_last": _training_step(work, "channels_last")}
    if compiled:
        steps |= _if_it_works("compiled", lambda: _training_step(work, "compiled"), note)
    return steps | _if_it_works(BF16, lambda: _training_step(work, BF16), note)


def _training_step(work: Workload, variant: str) -> Step:
    import torch

    module, images = _module_and_images(work, variant)
    labels = torch.from_numpy(work.labels())
    optimizer = torch.optim.SGD(module.parameters(), LEARNING_RATE)
    run = _compile(module) if variant == "compiled" else module
    in_bf16 = variant == BF16

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=in_bf16):
            loss = torch.nn.functional.cross_entropy(run(images), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def prediction_steps(work: Workload, compiled: bool, note: Note) -> dict[str, Step]:
    """Logits in evaluation mode, without a record for autograd, in every variant."""
    steps = {"contiguous": _prediction(work, "contiguous"), "channels_last": _prediction(work, "channels_last")}
    for variant in ("frozen", "compiled") if compiled else ("frozen",):
        steps |= _if_it_works(variant, lambda variant=variant: _prediction(work, variant), note)  # type: ignore[misc]
    return steps | _if_it_works(BF16, lambda: _prediction(work, BF16), note)


def _prediction(work: Workload, variant: str) -> Step:
    import torch

    module, images = _module_and_images(work, variant)
    module.eval()
    run: Callable[[torch.Tensor], object] = module
    if variant == "compiled":
        run = _compile(module)
    elif variant == "frozen":
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # TorchScript calls itself outdated, but it is fast
            traced = torch.jit.trace(module, images)  # type: ignore[no-untyped-call]
            run = torch.jit.optimize_for_inference(torch.jit.freeze(traced))
    in_bf16 = variant == BF16

    def step() -> object:
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=in_bf16):
            return run(images)

    return step


def _module_and_images(work: Workload, variant: str) -> "tuple[torch.nn.Module, torch.Tensor]":
    import torch

    module, images = module_of(work.graph()), torch.from_numpy(work.images())
    if variant == "contiguous":
        return module, images
    module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return module, images.contiguous(memory_format=torch.channels_last)


def _compile(module: "torch.nn.Module") -> Callable[..., "torch.Tensor"]:
    import torch

    torch.compiler.reset()  # what was compiled for another size must not make this one general
    return torch.compile(module, dynamic=False)


def _if_it_works(variant: str, make: Callable[[], Step], note: Note) -> dict[str, Step]:
    """Not every machine has a compiler, and not every version of PyTorch can do everything."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            step = make()
            step()
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        note(f"PyTorch's variant {variant!r} is left out, it does not work here: {reason[:200]}")
        return {}
    return {variant: step}
