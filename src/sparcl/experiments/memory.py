"""The memory that a trial is likely to need, for those who must share out a machine."""

from sparcl.graph import build_model
from sparcl.learning.costs import network_cost
from sparcl.learning.planned_stream import stream_without_pictures
from sparcl.learning.settings import Settings
from sparcl.network import choose_backend

# Measured on runs of several networks: what a process has before it learns, and how much of the paper's formula it
# needs on top (several passes are alive in one step).
IDLE_MB = {"native": 250, "torch": 700}
TIMES_FORMULA = 3


def demand_mb(settings: Settings) -> int:
    stream = stream_without_pictures(settings)
    graph = build_model(settings.model, stream.image_shape, stream.classes, settings.width)
    backend, _ = choose_backend(settings.backend, graph, settings.sparsity > 0)
    formula = network_cost(graph).memory_bytes(settings.batch_size, settings.sparsity, 0.0) / 1e6
    return round(IDLE_MB[backend] + TIMES_FORMULA * formula)
