"""Counting the cost of a run: beforehand from its settings, or while it goes on from what really happens."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from sparcl.data import Stream
from sparcl.graph import Graph, build_model
from sparcl.learning.settings import Settings, SparsifierSettings
from sparcl.methods import METHODS, Method, WithBuffer
from sparcl.methods.method import GradientWatcher
from sparcl.metrics.costs import CostCounter, LayerCost, NetworkCost
from sparcl.metrics.schedule import TrainingPlan, count_plan
from sparcl.network import Network
from sparcl.network.part_rates import frozen_parameters
from sparcl.operations import Conv
from sparcl.sparsity import SPARSIFIERS, Sparsifier
from sparcl.sparsity.layers import default_layers


def network_cost(graph: Graph, frozen: Collection[str] = ()) -> NetworkCost:
    masked = default_layers(graph, frozen)
    passing = _nodes_with_a_backward_pass(graph, frozen)
    layers = []
    for node in graph:
        if graph.macs_of(node):
            weight = graph.parameters_of(node)[0]
            positions, is_masked = math.prod(node.shape[1:]), node.name in masked
            trained = weight.name not in frozen
            layers.append(LayerCost(weight.name, weight.size, positions, is_masked, trained, node.name in passing))
    activations = sum(math.prod(node.shape) for node in graph if isinstance(node.op, Conv) and node.name in passing)
    still = sum(spec.size for spec in graph.parameters() if spec.name in frozen)
    return NetworkCost(tuple(layers), graph.parameter_count(), activations, still)


def _nodes_with_a_backward_pass(graph: Graph, frozen: Collection[str]) -> set[str]:
    """Those that are trained, or have something below them that is."""
    passing: set[str] = set()
    for node in graph:
        trained = any(spec.name not in frozen for spec in graph.parameters_of(node))
        if trained or not passing.isdisjoint(node.inputs):
            passing.add(node.name)
    return passing


def paper_network(image_shape: tuple[int, int, int], classes: int) -> NetworkCost:
    """The network that the paper trains, whatever its protocol."""
    return network_cost(build_model("resnet18", image_shape, classes, 64))


def training_plan(settings: Settings, stream: Stream) -> TrainingPlan:
    """What a run with these settings will do. Own layers and other distributions are counted as uniform."""
    return _plan(settings, [len(task.train) for task in stream.tasks])


def count_dense(
    settings: Settings, samples: Sequence[int], image_shape: tuple[int, int, int], classes: int
) -> CostCounter:
    """What the same training costs with all weights and all samples (of each task), without having run it."""
    dense = replace(settings, sparsity=0.0, sparsifier=SparsifierSettings())
    graph = build_model(settings.model, image_shape, classes, settings.width)
    return count_plan(network_cost(graph, frozen_parameters(graph, settings.rates)), _plan(dense, samples))


def _plan(settings: Settings, samples: Sequence[int]) -> TrainingPlan:
    method = METHODS[settings.method.name]
    sparsifier = SPARSIFIERS[settings.sparsifier.name]
    return TrainingPlan(
        samples=(sum(samples),) if method.learns_all_tasks_at_once else tuple(samples),
        epochs=settings.epochs,
        batch=settings.batch_size,
        replay_batch=min(settings.replay_batch_size, settings.buffer_size),
        replay_passes=method.replay_passes if settings.buffer_size else 0,
        replay_from_task=_replay_from_task(settings, method),
        old_network_passes=method.old_network_passes,
        closing_passes=method.closing_passes,
        closing_samples=settings.method.options.get("fisher_samples"),
        drop_last=settings.drop_last,
        sparse=sparsifier.cost_plan(settings.sparsity, settings.sparsifier.options),
        slots=settings.optimizer.slots(),
    )


def _replay_from_task(settings: Settings, method: type[Method]) -> int:
    if not issubclass(method, WithBuffer):
        return 1
    chosen: int = settings.method.options["replay_from_task"]
    return max(chosen, 2) if method.fills_at_task_end else chosen


class CountingWatcher(GradientWatcher):
    """Stands between a method and its sparsifier, and counts every pass with the weights it used."""

    def __init__(self, sparsifier: Sparsifier, network: Network) -> None:
        self._sparsifier = sparsifier
        self._parameters = network.parameters
        self.counter = CostCounter(network_cost(network.graph, network.parameters.frozen))

    def dense_gradients(self) -> Mapping[str, NDArray[Any]] | None:
        self._wanted = self._sparsifier.dense_gradients()
        return self._wanted

    def after_backward(self, samples: int, replayed: int) -> None:
        active = self._active()
        # A step that chooses anew has no gradient mask yet; an ordinary one would update as many as the choice keeps.
        updated = {**active, **self._sparsifier.gradient_counts()}
        if self._wanted:
            updated |= {name: array.size for name, array in self._wanted.items()}
        refresh = self._sparsifier.refreshes_gradients()
        for count, replay in ((samples - replayed, False), (replayed, True)):
            if count:
                self.counter.count_pass(count, active, updated, replay=replay, refresh=refresh)
        self._sparsifier.after_backward(samples, replayed)

    def before_update(self) -> None:
        self._sparsifier.before_update()

    def extra_pass(self, samples: int, network: Network, backward: bool) -> None:
        active = {name: len(index) for name, index in network.parameters.index.items()}
        self.counter.count_extra_pass(samples, active, backward)

    def count_importance(self, samples: int) -> None:
        self.counter.count_importance_pass(samples, self._active())

    def _active(self) -> dict[str, int]:
        return {name: len(index) for name, index in self._parameters.index.items()}

    def summary(self) -> dict[str, Any]:
        """For a run's costs.json."""
        return {
            "paper": {"total": self.counter.total("paper"), "phases": self.counter.by_phase("paper")},
            "full": {
                "total": self.counter.total("full"),
                "phases": self.counter.by_phase("full"),
                "layers": self.counter.by_layer("full"),
            },
        }
