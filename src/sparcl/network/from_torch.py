"""Bring your own network: a torch module becomes a graph, and its weights the graph's parameters.

    module ──► torch.fx: the steps of its forward ──► a node for each step ──► Graph, Parameters
                                                      └─ not expressible: an error that names the layer

Nothing is approximated. What a graph cannot express exactly is refused, and the finished graph must give the logits
that the module gives, because torch.fx sees neither in-place additions nor code that does not touch its proxies.

Torch is imported inside the functions: the package must be importable on devices without it.
"""

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sparcl.errors import SparclError
from sparcl.graph import Graph
from sparcl.network.parameters import FlatStore, Parameters
from sparcl.network.torch_steps import Translation, first_line
from sparcl.operations import Dropout

if TYPE_CHECKING:
    import torch

NEEDS_TORCH = 'from_torch needs PyTorch, which is not installed. Install it with: pip install "sparcl-edge[torch]"'


def from_torch(module: "torch.nn.Module", input_shape: tuple[int, int, int]) -> tuple[Graph, Parameters]:
    """The module as a graph for images of this shape (channels, height, width), with copies of its numbers.

    The parameters are float32, or float64 if the module's are. The module is left as it was.
    """
    try:
        import torch
    except ImportError:
        raise SparclError(NEEDS_TORCH) from None
    if not isinstance(module, torch.nn.Module):
        raise SparclError(f"from_torch takes a torch.nn.Module, not a {type(module).__name__}.")
    shape = tuple(input_shape) if isinstance(input_shape, tuple | list) else ()
    if len(shape) != 3 or not all(isinstance(size, int) and size > 0 for size in shape):
        raise SparclError(f"input_shape must be (channels, height, width), for example (3, 32, 32), not {input_shape}.")
    dtypes = {parameter.dtype for parameter in module.parameters()} or {torch.float32}
    if dtypes not in ({torch.float32}, {torch.float64}):
        found = ", ".join(sorted(str(dtype) for dtype in dtypes))
        raise SparclError(f"from_torch takes modules of float32 or of float64, not of {found}.")

    twin = _exact_copy(module)
    training, evaluating = (Translation(twin.train(mode), shape) for mode in (True, False))
    if _without_dropout(training.graph) != _without_dropout(evaluating.graph):
        raise SparclError(
            f"from_torch cannot take {type(module).__name__}: its forward does one thing in training and another in "
            "evaluation (if self.training), but a graph does the same in both."
        )
    exact = Parameters(training.graph, np.float64)
    _copy_numbers(training.layers, exact.values)
    _copy_numbers(training.layers, exact.statistics)
    _check_logits(training.graph, exact, twin)
    parameters = Parameters(training.graph, np.float32 if dtypes == {torch.float32} else np.float64)
    parameters.values.flat[...] = exact.values.flat
    parameters.statistics.flat[...] = exact.statistics.flat
    return training.graph, parameters


def _without_dropout(graph: Graph) -> Graph:
    """What must be the same in training and in evaluation."""
    source: dict[str, str] = {}
    nodes = []
    for node in graph:
        inputs = tuple(source.get(name, name) for name in node.inputs)
        if isinstance(node.op, Dropout):
            source[node.name] = inputs[0]
        else:
            nodes.append(replace(node, inputs=inputs))
    return Graph(tuple(nodes))


def _exact_copy(module: "torch.nn.Module") -> "torch.nn.Module":
    """A copy in float64 on the CPU, whose modes may be switched and whose logits show the slightest difference."""
    try:
        return copy.deepcopy(module).cpu().double()
    except Exception as problem:
        raise SparclError(f"from_torch cannot copy {type(module).__name__}: {first_line(problem)}") from problem


def _copy_numbers(layers: dict[str, Any], store: FlatStore) -> None:
    for name in store:
        layer, _, part = name.rpartition(".")
        if layer in layers:  # dropout keeps a count that torch does not have
            store[name][...] = getattr(layers[layer], part).detach().numpy()


def _check_logits(graph: Graph, parameters: Parameters, module: "torch.nn.Module") -> None:
    """What torch.fx does not see makes a difference here."""
    import torch

    from sparcl.network.torch import TorchNetwork

    images: Any = np.random.default_rng(0).normal(size=(2, *graph.input_shape))
    ours = TorchNetwork(graph, parameters).predict(images.copy())  # a first layer may write into its input
    with torch.no_grad():
        theirs = module.eval()(torch.from_numpy(images)).numpy()
    if ours.shape != theirs.shape or not np.allclose(ours, theirs, 0, 1e-9 * np.abs(theirs).max(), equal_nan=True):
        raise SparclError(
            f"from_torch cannot take {type(module).__name__}: torch.fx traced something else than it computes. Usual "
            "reasons are hooks, and += or other in-place operations on a tensor that is read again: write x = x + y."
        )
