"""Our side: steps of the native engine on networks with random masks.

Functions with `_here` are called in the process of a contender, where they share one network.
"""

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from sparcl import _engine
from sparcl.bench.timing import Step
from sparcl.bench.workload import CHANNELS, LEARNING_RATE, Workload
from sparcl.compiler import compile_graph, place_apart, unsupported
from sparcl.deploy import load
from sparcl.deploy.writer import Preprocessing, write_model
from sparcl.errors import SparclError
from sparcl.graph import Graph
from sparcl.learning.tuning import summary
from sparcl.methods import cross_entropy
from sparcl.network import Parameters, Sgd
from sparcl.network.native import NativeNetwork
from sparcl.sparsity.layers import Layer, sparse_layers
from sparcl.sparsity.masks import random_mask
from sparcl.tuning import apply, tune


def build(graph: Graph, layers: list[Layer]) -> NativeNetwork:
    """A network whose `layers` have random masks."""
    reason = unsupported(graph)
    if reason is not None:
        raise SparclError(f"The engine cannot run this network: {reason}.")
    generator = np.random.default_rng(0)
    parameters = Parameters(graph)
    parameters.initialise(graph, generator)
    parameters.set_index({layer.name: random_mask(layer.size, layer.active(), generator) for layer in layers})
    return NativeNetwork(graph, parameters)


def network(work: Workload, sparsity: float) -> NativeNetwork:
    """The layers that training makes sparse are sparse; at sparsity 0 they are stored dense."""
    graph = work.graph()
    return build(graph, sparse_layers(graph, sparsity) if sparsity > 0 else [])


def training_step(net: NativeNetwork, work: Workload) -> Step:
    """Forward, cross-entropy, backward and gradient descent, as a method does them."""
    images, loss = work.images(), cross_entropy(work.labels())
    optimizer = Sgd(net.parameters, LEARNING_RATE)

    def step() -> float:
        logits, context = net.forward(images)
        value, d_logits = loss(logits)
        net.backward(context, d_logits)
        optimizer.step()
        return value

    return step


def prediction(net: NativeNetwork, work: Workload) -> Step:
    """What users do: the network is exported, loaded, and asked."""
    images, names = work.images(), [str(label) for label in range(work.classes)]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "model.sparcl"
        write_model(path, net.graph, net.parameters, names, Preprocessing((0.5,) * CHANNELS, (0.25,) * CHANNELS))
        model = load(path)
    return lambda: model.predict(images)


@functools.cache
def _network_here(work: Workload, sparsity: float, threads: int) -> NativeNetwork:
    _engine.set_threads(threads)
    return network(work, sparsity)


def tune_here(work: Workload, sparsity: float, threads: int, seconds: float) -> str:
    """Find the network's fastest settings, as `sparcl run` does before it starts, and use them. What it brought."""
    net = _network_here(work, sparsity, threads)
    found = tune(net, work.batch, seconds)
    apply(net, found)
    return summary(found)


def train_here(work: Workload, sparsity: float, threads: int) -> Step:
    return training_step(_network_here(work, sparsity, threads), work)


def predict_here(work: Workload, sparsity: float, threads: int) -> Step:
    return prediction(_network_here(work, sparsity, threads), work)


def convolve_here(work: Workload, sparsity: float, threads: int, layer: str, op: str) -> Step:
    """A single pass of a single convolution."""
    return _single_steps(work, sparsity, threads).of_layer(layer, op)


@functools.cache
def _single_steps(work: Workload, sparsity: float, threads: int) -> "SingleSteps":
    return SingleSteps(_network_here(work, sparsity, threads), work)


class SingleSteps:
    """Runs single steps of a network's plan, in which every buffer has a place of its own."""

    def __init__(self, net: NativeNetwork, work: Workload) -> None:
        net.prepare()
        self.plan = compile_graph(net.graph, work.batch, _engine.lanes())
        self.plan.arena = place_apart(self.plan.buffers.values())
        self._flat = net.flat_arrays()
        self._compiled = net.compile(self.plan)
        self._arena = _engine.Arena(self.plan.arena)
        self._fill(work)

    def _fill(self, work: Workload) -> None:
        """Leave in the memory what a real step leaves there."""
        logits, threads = np.empty((work.batch, work.classes), np.float32), _engine.threads()
        self._compiled.forward(self._arena, work.images(), logits, *self._flat, True, 0.1, threads)
        _, d_logits = cross_entropy(work.labels())(logits)
        self._compiled.backward(self._arena, np.ascontiguousarray(d_logits, np.float32), *self._flat, True, {}, threads)

    def of_layer(self, layer: str, op: str) -> Callable[[], None]:
        """The step that does `op` for a layer."""
        found = [
            number
            for number, step in enumerate(self.plan.steps)
            if (step.layer, step.op, step.recompute) == (layer, op, False)
        ]
        if not found:
            raise SparclError(f"the plan has no step {op!r} of {layer}")
        threads = _engine.threads()
        return lambda: self._compiled.run_steps(self._arena, found, *self._flat, threads)
