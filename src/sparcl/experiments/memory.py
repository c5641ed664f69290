"""The memory that a trial is likely to need, for those who must share out a machine."""

from sparcl.experiments.estimate import planned_backend, planned_graph
from sparcl.learning.costs import network_cost
from sparcl.learning.settings import Settings
from sparcl.network.part_rates import frozen_parameters

# Fitted generously to the peaks in docs/results.md: what a process has before it learns, and how much of the paper's
# formula it needs on top (several passes are alive in one step). Asking for too much only delays a trial.
IDLE_MB = {"native": 150, "torch": 800}
TIMES_FORMULA = 3


def demand_mb(settings: Settings) -> int:
    graph = planned_graph(settings)
    cost = network_cost(graph, frozen_parameters(graph, settings.rates))
    formula = cost.memory_bytes(settings.batch_size, settings.sparsity, slots=settings.optimizer.slots()) / 1e6
    return round(IDLE_MB[planned_backend(settings, graph)] + TIMES_FORMULA * formula)
