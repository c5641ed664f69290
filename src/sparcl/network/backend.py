"""Choosing the backend that runs a graph."""

import importlib.util
from collections.abc import Mapping
from typing import Literal

import numpy as np

from sparcl import _engine
from sparcl.compiler import unsupported
from sparcl.errors import SparclError
from sparcl.graph import Graph
from sparcl.network.native import NativeNetwork
from sparcl.network.parameters import Parameters
from sparcl.network.part_rates import part_rates
from sparcl.network.protocol import Network

Backend = Literal["auto", "native", "torch"]

NEEDS_TORCH = (
    'The torch backend needs PyTorch, which is not installed. Install it with: pip install "sparcl-edge[torch]"'
)


# Whatever computes must know its number of threads before it is loaded.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def available_cores() -> int:
    """Those that this process may use: its affinity, and the CPU quota of its control group."""
    return _engine.usable_cores()


def thread_environment(threads: int) -> dict[str, str]:
    """For the environment of a process that is started."""
    return dict.fromkeys(THREAD_VARIABLES, str(threads))


def choose_backend(wanted: Backend, graph: Graph) -> tuple[Literal["native", "torch"], str]:
    """The backend to use, and why."""
    reason = unsupported(graph)
    if wanted == "torch" or (wanted == "auto" and reason is not None):
        if importlib.util.find_spec("torch") is None:
            raise SparclError(NEEDS_TORCH + (f" (The engine cannot run this network: {reason}.)" if reason else ""))
        return "torch", f"the engine cannot run this network: {reason}" if wanted == "auto" else "as chosen"
    if wanted == "native" and reason is not None:
        raise SparclError(f"The native backend cannot run this network: {reason}. Use backend=torch.")
    return "native", "as chosen" if wanted == "native" else "the engine has every layer of this network"


def build_network(
    graph: Graph,
    generator: "np.random.Generator",
    threads: int = 0,
    backend: Literal["native", "torch"] = "torch",
    rates: Mapping[str, float] | None = None,
) -> Network:
    """A freshly initialised network on the chosen backend; `threads` 0 means every core.

    `rates` multiplies the learning rates of parts of the network, see `part_rates`.
    """
    threads = threads or available_cores()
    _engine.set_threads(threads)
    parameters = Parameters(graph)
    parameters.initialise(graph, generator)
    parameters.set_rates(part_rates(graph, rates or {}))
    if backend == "native":
        return NativeNetwork(graph, parameters)
    if importlib.util.find_spec("torch") is None:
        raise SparclError(NEEDS_TORCH)
    from sparcl.network.torch import TorchNetwork, set_threads

    set_threads(threads)
    return TorchNetwork(graph, parameters)
