"""A learning rate for each part of a network: multipliers given for the beginnings of nodes' names."""

from collections.abc import Mapping

from sparcl.errors import SparclError
from sparcl.graph import Graph
from sparcl.hints import did_you_mean


def part_rates(graph: Graph, rates: Mapping[str, float]) -> dict[str, float]:
    """The multiplier of every parameter that has one.

    A part is a node, or all nodes whose names begin with its name and a dot: stage1 is all of stage1.block1.conv1 and
    the like, and nothing of stage10. Of several parts that hold a node the smallest counts.
    """
    owners = [node for node in graph if graph.parameters_of(node)]
    parts = {part for node in owners for part in _parts_of(node.name)}
    for part in rates:
        if part not in parts:
            largest = [name for name in parts if "." not in name]
            hint = did_you_mean(part, largest, elsewhere=sorted(parts))
            raise SparclError(f"The setting rates names {part!r}, but no layer of the network is called so{hint}")
    found: dict[str, float] = {}
    for node in owners:
        holding = [part for part in _parts_of(node.name) if part in rates]
        if holding:
            found |= {spec.name: rates[holding[-1]] for spec in graph.parameters_of(node)}
    if len(found) == len(graph.parameters()) and not any(found.values()):
        raise SparclError("The setting rates freezes the whole network: leave something to learn.")
    return found


def frozen_parameters(graph: Graph, rates: Mapping[str, float]) -> frozenset[str]:
    """Those whose multiplier is 0."""
    return frozenset(name for name, rate in part_rates(graph, rates).items() if not rate)


def _parts_of(name: str) -> list[str]:
    """The largest first."""
    words = name.split(".")
    return [".".join(words[: count + 1]) for count in range(len(words))]
