"""How much work a trial is, and how long that takes here."""

import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from sparcl.data import Progress, Stream
from sparcl.errors import SparclError
from sparcl.graph import Graph, build_model
from sparcl.learning.costs import network_cost, training_plan
from sparcl.learning.planned_stream import stream_without_pictures
from sparcl.learning.run_directory import RunDirectory
from sparcl.learning.settings import Settings, run_key
from sparcl.methods import cross_entropy
from sparcl.metrics.costs import CostCounter
from sparcl.metrics.schedule import count_plan
from sparcl.network import Network, Sgd, build_network, choose_backend
from sparcl.network.part_rates import frozen_parameters
from sparcl.sparsity.layers import layers_of
from sparcl.sparsity.masks import random_mask

SECONDS_TO_START = 4.0  # a process, its imports, its data
SAMPLES = 16  # of the step that is timed


Kind = tuple[str, int, str, str, int, float]


class Estimates:
    """Remembers what was counted and timed: trials that differ in their seed are the same work."""

    def __init__(self, finished_under: Path, threads: int, progress: Progress | None = None) -> None:
        """progress: told while pictures are decoded, which have to be counted."""
        self._threads = threads
        self._progress = progress
        self._flops: dict[str, float] = {}
        self._rates: dict[Kind, float] = _rates(finished_under)

    def flops(self, settings: Settings) -> float:
        """Of the whole run: training, and every evaluation."""
        name = run_key(replace(settings, seed=0))
        if name not in self._flops:
            self._flops[name] = _planned(settings, self._progress)
        return self._flops[name]

    def seconds(self, settings: Settings) -> float:
        graph = planned_graph(settings)
        kind = _kind(settings, planned_backend(settings, graph), self._threads)
        if kind not in self._rates:
            self._rates[kind] = _timed(settings, graph, self._threads)
        return SECONDS_TO_START + self.flops(settings) / self._rates[kind]


def _planned(settings: Settings, progress: Progress | None) -> float:
    stream = stream_without_pictures(settings, progress)
    graph = _graph(settings, stream)
    network = network_cost(graph, frozen_parameters(graph, settings.rates))
    forward = 2 * network.macs * network.density(settings.sparsity)
    sizes = np.cumsum([len(task.test) for task in stream.tasks])
    evaluated = int(sizes[-1] + sizes.sum() * (1 + settings.evaluation.snapshots))
    return float(count_plan(network, training_plan(settings, stream)).total("full") + forward * evaluated)


def planned_graph(settings: Settings) -> Graph:
    return _graph(settings, stream_without_pictures(settings))


def _graph(settings: Settings, stream: Stream) -> Graph:
    return build_model(settings.model, stream.image_shape, stream.classes, settings.width)


def planned_backend(settings: Settings, graph: Graph) -> Literal["native", "torch"]:
    backend, _ = choose_backend(settings.backend, graph)
    return backend


def _kind(settings: Settings, backend: str, threads: int) -> Kind:
    """Runs of one kind compute about as many FLOPs a second."""
    return backend, threads, settings.dataset, settings.model, settings.width, settings.sparsity


def _rates(root: Path) -> dict[Kind, float]:
    """FLOPs a second of the runs that are finished."""
    sums: dict[Kind, tuple[float, float]] = {}
    for path in root.glob("*/costs.json"):
        directory = RunDirectory(path.parent)
        try:
            stored, costs = directory.stored_settings(), directory.costs()
            work, seconds = float(costs["flops"]["full"]["total"]), float(costs["seconds"]["train"])
        except (SparclError, KeyError, TypeError, ValueError):
            continue
        kind = _kind(stored, stored.backend, stored.threads)
        before = sums.get(kind, (0.0, 0.0))
        sums[kind] = before[0] + work, before[1] + seconds
    return {kind: work / seconds for kind, (work, seconds) in sums.items() if seconds > 0}


def _timed(settings: Settings, graph: Graph, threads: int) -> float:
    """FLOPs a second of one training step, the fastest of three: a rough number, but of this machine."""
    generator = np.random.default_rng(0)
    network = build_network(graph, generator, threads, planned_backend(settings, graph), settings.rates)
    frozen = network.parameters.frozen
    layers = layers_of(graph, settings.sparsity, settings.sparsifier.options, frozen)
    network.parameters.set_index({layer.name: random_mask(layer.size, layer.active(), generator) for layer in layers})
    images = generator.normal(size=(SAMPLES, *graph.nodes[0].shape)).astype(np.float32)
    seconds = min(_step_seconds(network, images) for _ in range(3))
    counter = CostCounter(network_cost(graph, frozen))
    kept = counter.network.kept(settings.sparsity)
    counter.count_pass(SAMPLES, kept, kept)
    return counter.total("full") / seconds


def _step_seconds(network: Network, images: np.ndarray) -> float:
    start = time.perf_counter()
    logits, context = network.forward(images)
    _, d_logits = cross_entropy(np.zeros(len(images), np.int64))(logits)
    network.backward(context, d_logits)
    Sgd(network.parameters, 0.01).step()
    return time.perf_counter() - start


def wall_seconds(each: Iterable[float], jobs: int) -> float:
    """Of trials that are started in order, whenever one of so many places is free."""
    places = [0.0] * jobs
    for seconds in each:
        places.sort()
        places[0] += seconds
    return max(places)
