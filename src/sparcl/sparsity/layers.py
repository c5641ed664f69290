"""Which layers are sparse, and how sparse each one is."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sparcl.errors import SparclError
from sparcl.graph import Graph, Node
from sparcl.operations import Conv

Distribution = Literal["uniform", "erk"]


@dataclass(frozen=True)
class Layer:
    """A sparse weight: its name, its positions, and the sparsity it shall have."""

    name: str
    size: int
    sparsity: float

    def active(self, offset: float = 0.0) -> int:
        """How many positions are active at this sparsity plus an offset (in absolute points)."""
        return self.size - round(self.size * min(1.0, max(0.0, self.sparsity + offset)))

    def share(self, proportion: float) -> int:
        """A proportion of all positions, as a count."""
        return round(self.size * proportion)


def default_layers(graph: Graph, frozen: Collection[str] = ()) -> list[str]:
    """Every convolution with more than one input for each output, but not the first, nor those that skip pixels.

    Depthwise convolutions, the 1x1 projections of residual blocks and linear layers are a small part of the work.
    What is frozen stays as it is.
    """
    convolutions = [node for node in graph if isinstance(node.op, Conv)]
    chosen = [node for node in convolutions[1:] if _may_be_sparse(node) and not _is_projection(node)]
    return [node.name for node in chosen if f"{node.name}.weight" not in frozen]


def _may_be_sparse(node: Node) -> bool:
    return isinstance(node.op, Conv) and node.op.may_be_sparse


def _is_projection(node: Node) -> bool:
    return isinstance(node.op, Conv) and node.op.is_projection


def sparse_layers(
    graph: Graph,
    sparsity: float,
    distribution: Distribution = "uniform",
    names: Sequence[str] = (),
    own_sparsity: Mapping[str, float] | None = None,
    frozen: Collection[str] = (),
) -> list[Layer]:
    """The sparse layers of a graph. `names` replaces the default choice; `own_sparsity` is that of single ones.

    Weights that are `frozen` stay as they are, so none of them can be taken away.
    """
    chosen = list(names) or default_layers(graph, frozen)
    own_sparsity = own_sparsity or {}
    for name in [*chosen, *own_sparsity]:
        if not any(node.name == name and isinstance(node.op, Conv) for node in graph):
            raise SparclError(f"The network has no convolution called {name!r}; `sparcl inspect` lists them.")
        if not _may_be_sparse(graph[name]):
            raise SparclError(f"{name!r} cannot be sparse: only 1x1 and 3x3 convolutions that are not depthwise can.")
        if f"{name}.weight" in frozen:
            raise SparclError(f"{name} is frozen by the setting rates: it stays as it is, and cannot be made sparse.")
    shapes = {name: graph.parameters_of(graph[name])[0].shape for name in chosen}
    densities = dict.fromkeys(chosen, 1.0 - sparsity)
    if distribution == "erk":
        densities = _erdos_renyi_kernel(shapes, 1.0 - sparsity)
    sparsities = {name: 1.0 - density for name, density in densities.items()} | dict(own_sparsity)
    return [
        Layer(f"{name}.weight", graph.parameters_of(graph[name])[0].size, value) for name, value in sparsities.items()
    ]


def layers_of(graph: Graph, sparsity: float, options: Mapping[str, Any], frozen: Collection[str] = ()) -> list[Layer]:
    """Those that a sparsifier with these options makes sparse; of a dense run none."""
    if not sparsity and not options["layer_sparsity"]:
        return []
    own = options["layer_sparsity"]
    return sparse_layers(graph, sparsity, options["distribution"], options["layers"], own, frozen)


def _erdos_renyi_kernel(shapes: Mapping[str, tuple[int, ...]], density: float) -> dict[str, float]:
    """Densities proportional to (sum of the axes) / (product of the axes), same total as uniform (Evci et al., 2020).

    A layer whose share would exceed all of its weights is dense, and the others share what is left.
    """
    sizes = {name: float(_product(shape)) for name, shape in shapes.items()}
    scores = {name: sum(shape) / sizes[name] for name, shape in shapes.items()}
    dense: set[str] = set()
    while True:
        if len(dense) == len(shapes):
            return dict.fromkeys(shapes, 1.0)
        left = density * sum(sizes.values()) - sum(sizes[name] for name in dense)
        factor = left / sum(scores[name] * sizes[name] for name in shapes if name not in dense)
        too_dense = {name for name in shapes if name not in dense and factor * scores[name] > 1.0}
        if not too_dense:
            return {name: 1.0 if name in dense else factor * scores[name] for name in shapes}
        dense |= too_dense


def _product(shape: tuple[int, ...]) -> int:
    product = 1
    for length in shape:
        product *= length
    return product
