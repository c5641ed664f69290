"""Choosing the backend that runs a graph."""

import importlib.util
import os

import numpy as np

from sparcl import _engine
from sparcl.errors import SparclError
from sparcl.graph import Graph
from sparcl.network.parameters import Parameters
from sparcl.network.protocol import Network

NEEDS_TORCH = 'Training needs PyTorch, which is not installed. Install it with: pip install "sparcl-edge[torch]"'


def available_cores() -> int:
    return len(os.sched_getaffinity(0))


def build_network(graph: Graph, generator: np.random.Generator, threads: int = 0) -> Network:
    """A freshly initialised network on the chosen backend; `threads` 0 means every core."""
    if importlib.util.find_spec("torch") is None:
        raise SparclError(NEEDS_TORCH)
    from sparcl.network.torch import TorchNetwork, set_threads

    threads = threads or available_cores()
    _engine.set_threads(threads)
    set_threads(threads)
    parameters = Parameters(graph)
    parameters.initialise(graph, generator)
    return TorchNetwork(graph, parameters)
