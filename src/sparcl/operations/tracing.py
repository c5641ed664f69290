"""What the operations share for taking over torch modules: the rules are registered here, one for each layer class of
torch.nn and for each function or method, and `sparcl.network.from_torch` applies them.

A rule raises ValueError for what a graph cannot express exactly.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from sparcl.operations.operation import Operation


@dataclass(frozen=True)
class Traced:
    """What a step of the module's forward returns: a node of the graph, and the shape that torch sees."""

    node: str
    shape: tuple[int, ...]
    #: Torch sees a map of 1x1 pixels where the graph, whose global pooling flattens too, has a vector.
    pooled: bool = False
    #: Zeros that were put around it, and that only a convolution takes in: (left, right, top, bottom).
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)


class Trace(Protocol):
    """The graph that is being built."""

    def add(self, operation: Operation, *inputs: Traced, layer: Any = None) -> Traced:
        """A node for the current step. `layer`: the torch module whose parameters it takes over."""

    def count(self, kind: type[Operation]) -> int:
        """How many nodes of a kind there are so far."""

    def overwrite(self, old: Traced, new: Traced) -> Traced:
        """After an operation in place, whoever reads the old tensor (or a view of it) reads the new one."""


Rule = TypeVar("Rule", bound=Callable[..., Any])
LAYERS: dict[str, Callable[[Any, Any, Traced], Traced]] = {}  # (trace, layer, x)
FUNCTIONS: dict[str, Callable[..., Any]] = {}  # (trace, *arguments of torch's function or method)


def traces_layer(*classes: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        LAYERS.update(dict.fromkeys(classes, rule))
        return rule

    return register


def traces_function(*names: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        FUNCTIONS.update(dict.fromkeys(names, rule))
        return rule

    return register


def traced(value: Any) -> Traced:
    if not isinstance(value, Traced):
        raise ValueError(f"{value!r} is not a tensor")
    return value


def square(size: Any) -> Any:
    """One number for both directions, if they agree: torch takes, and keeps, either form."""
    return size[0] if isinstance(size, tuple | list) and len(set(size)) == 1 else size


def whole(name: str, size: Any) -> int:
    """The same, and it must be a single whole number."""
    size = square(size)
    if not isinstance(size, int):
        raise ValueError(f"{name}={size} is not supported (only the same in both directions)")
    return size


def require(name: str, value: Any, *allowed: Any) -> None:
    value = square(value)
    if value not in allowed:
        choices = " or ".join(f"{name}={choice!r}" for choice in allowed)
        raise ValueError(f"{name}={value!r} is not supported (only {choices})")


def require_map(x: Traced) -> None:
    if x.pooled or len(x.shape) != 3:
        raise ValueError("it follows a global pooling or flattening, after which there are no maps")


def require_channels(name: str, expected: int, x: Traced) -> None:
    if expected != x.shape[0]:
        raise ValueError(f"it has {name}={expected}, but its input has the shape {x.shape}")
