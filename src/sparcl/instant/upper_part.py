"""The upper part of a backbone, which can be trained further, and where it begins.

    picture ─► lower part ─► latent ─► upper part ─► features
               frozen                  trained by deepening

The network is cut where a single map passes, so that what is above depends on that map alone: at the first such place
with at most half of the work above it.
"""

import math
from collections.abc import Mapping
from itertools import accumulate
from typing import Any

from numpy.typing import NDArray

from sparcl.backbone import Backbone
from sparcl.errors import SparclError
from sparcl.graph import Graph, Node
from sparcl.network.parameters import Parameters
from sparcl.network.restoring import load_network, network_tensors
from sparcl.operations import Conv, Flatten, Input
from sparcl.tensor_files import Tensors

UPPER_SHARE = 0.5  # of the multiply-accumulates
LATENT = "latent"  # the last node of the lower part: the map at the cut, flat


def cut_of(graph: Graph) -> int:
    """Which node's map the upper part begins with."""
    nodes, readers = graph.nodes, _last_readers(graph)
    work = graph.macs()
    below = list(accumulate(graph.macs_of(node) for node in nodes))
    passed = list(accumulate((readers[node.name] for node in nodes), max))  # the last reader of anything so far
    alone = [
        place
        for place, node in enumerate(nodes[1:], start=1)
        if len(node.shape) == 3
        and passed[place - 1] <= place
        and nodes[place + 1].op.role not in ("norm", "activation")  # these are computed together with what is before
        and any(isinstance(above.op, Conv) for above in nodes[place + 1 :])
    ]
    if not alone:
        raise SparclError("This backbone has no upper part that could be trained: no single map passes through it.")
    return next((place for place in alone if work - below[place] <= UPPER_SHARE * work), alone[-1])


def _last_readers(graph: Graph) -> dict[str, int]:
    last = {node.name: place for place, node in enumerate(graph.nodes)}
    for place, node in enumerate(graph.nodes):
        last |= dict.fromkeys(node.inputs, place)
    return last


def lower_graph(graph: Graph) -> Graph:
    """From the picture to the latent."""
    place = cut_of(graph)
    cut = graph.nodes[place]
    return Graph((*graph.nodes[: place + 1], Node(LATENT, Flatten(), (cut.name,), (math.prod(cut.shape),))))


def upper_graph(graph: Graph) -> Graph:
    """From the latent to the classifier."""
    place = cut_of(graph)
    cut = graph.nodes[place]
    return Graph((Node(cut.name, Input(), (), cut.shape), *graph.nodes[place + 1 :]))


def upper_tensors(graph: Graph, parameters: Parameters) -> Tensors:
    """What is kept of a trained upper part (`parameters`, of `upper_graph`): all but its classifier."""
    names = _names(upper_graph(graph).without_classifier())
    tensors = network_tensors(parameters)
    return {name: tensors[name].copy() for name in tensors if name.partition(".")[2] in names}


def trained_parameters(backbone: Backbone, size: int, upper: Mapping[str, NDArray[Any]]) -> Parameters:
    """The backbone's, with a trained upper part in their place.

    Checked: raises ValueError or KeyError for anything that no training has given.
    """
    graph = backbone.graph(size)
    features = upper_graph(graph).without_classifier()
    unknown = {name.partition(".")[2] for name in upper} - _names(features)
    if unknown:
        raise ValueError(f"the backbone has no {min(unknown)} that is trained")
    trained = load_network(features, upper)
    for name in trained.statistics:
        if name.endswith(".running_var") and (trained.statistics[name] < 0).any():
            raise ValueError(f"{name} holds a negative variance")
    own = backbone.parameters(size)
    found = Parameters(graph, index=trained.index)
    for store, above, everything in (
        (found.values, trained.values, own.values),
        (found.statistics, trained.statistics, own.statistics),
    ):
        for name in store:
            store[name][...] = above[name] if name in above.specs else everything[name]
    return found


def _names(graph: Graph) -> set[str]:
    return {spec.name for spec in (*graph.parameters(), *graph.statistics())}
