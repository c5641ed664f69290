"""What an operation of a network is. Each one has a file of its own in this folder, which says everything that Python
knows of it; what C++ knows is the file of the same name in native/operations. docs/add-an-operation.md adds one.

An operation is a value: `Conv(64, stride=2)` has its attributes and no numbers. A node of a graph names an operation,
its inputs and the shape that comes out.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

Shape = tuple[int, ...]
# How the compiler treats a node. `convolution`: may be sparse, sorted and tuned by the engine. `norm`, `sum` and
# `activation` are fused with what they follow. `kernel`: runs as it is, by the engine's operation of the same name.
Role = Literal["input", "convolution", "norm", "sum", "activation", "kernel"]


@dataclass(frozen=True)
class ParameterSpec:
    """One named block of numbers: trained by gradient descent, or a running statistic."""

    name: str
    shape: Shape

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class TorchPass(Protocol):
    """What a node's `torch` gets to see of a forward pass on the torch backend."""

    train: bool
    momentum: float | None  # of running statistics; None: the operation's own, 0: they stay as they are
    in_place: bool  # nobody else reads the input, so it may be overwritten

    def parameter(self, part: str) -> "torch.Tensor | None":
        """A tensor that the node owns, by the last part of its name."""

    def statistic(self, part: str) -> "torch.Tensor": ...


class OnnxWriter(Protocol):
    """Collects the nodes of an ONNX graph."""

    def node(self, kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> None: ...

    def bounds(self, source: str, output: str, least: float, greatest: float) -> None:
        """Numbers outside are moved to the nearest bound."""

    def constant(self, name: str, values: NDArray[Any], shape: Shape) -> str:
        """Adds an array of float32, and returns its name."""


class Numbers(Protocol):
    """The folded numbers of a node: those of a weight with every position, and a bias."""

    def weight(self) -> NDArray[Any]: ...

    def bias(self) -> NDArray[Any]: ...


@dataclass(frozen=True)
class Operation:
    """The attributes of an operation are the fields of its dataclass."""

    name: ClassVar[str]  # in plans and model files, and of the engine's operation
    role: ClassVar[Role] = "kernel"
    inputs: ClassVar[int] = 1  # how many it reads; 0: any number
    # What a backward pass reads besides the gradient of the output: the node's "input", its "output".
    backward_reads: ClassVar[tuple[str, ...]] = ()
    # How many numbers a forward pass leaves for its backward pass, besides maps.
    state: ClassVar[int] = 0

    def output_shape(self, *inputs: Shape) -> Shape:
        """The shape that comes out; raises ValueError if the inputs do not fit."""
        return inputs[0]

    def parameters(self, inputs: Sequence[Shape], output: Shape) -> Mapping[str, Shape]:
        """What is trained, by the last part of its name."""
        return {}

    def statistics(self, inputs: Sequence[Shape], output: Shape) -> Mapping[str, Shape]:
        """Running numbers, which training moves without gradients; they start at zero."""
        return {}

    def initialise(self, values: Mapping[str, NDArray[Any]], generator: "np.random.Generator") -> None:
        """Fill new parameters; by default uniform in +-1/sqrt(fan-in), as PyTorch does."""
        if values:
            weight = values["weight"]
            bound = (weight.size / weight.shape[0]) ** -0.5
            for part in values.values():
                part[...] = generator.uniform(-bound, bound, part.shape)

    def initialise_statistics(self, values: Mapping[str, NDArray[Any]]) -> None:
        """Fill new statistics, if zero is not right."""

    def macs(self, inputs: Sequence[Shape], output: Shape) -> int:
        """Multiply-accumulates of one image's forward pass; only convolutions and linear layers count, as is usual."""
        return 0

    def unsupported(self, inputs: Sequence[Shape], output: Shape) -> str | None:
        """Why the engine cannot run it; None if it can."""
        return None

    def torch(self, inputs: "Sequence[torch.Tensor]", run: TorchPass) -> "torch.Tensor":
        """The same with torch: the reference, and the dense baseline."""
        raise NotImplementedError

    def onnx(self, write: OnnxWriter, name: str, inputs: Sequence[str], output: str, numbers: Numbers) -> None:
        """The same as nodes of ONNX, in inference. `name`: of the node."""
        raise NotImplementedError

    def described(self) -> str:
        """In a table of a network's nodes."""
        return self.name

    def engine_name(self) -> str:
        """The engine's operation that trains it; a model file calls it so too."""
        return self.name

    def engine_weight(self, weight: NDArray[Any], inputs: Sequence[Shape]) -> NDArray[Any]:
        """A flattened weight in the order in which the engine's operation reads it."""
        return weight

    def attributes(self) -> Mapping[str, int]:
        """What the engine's operation and a model file are told, in the order of native/operations."""
        return {}

    def parts(self, inputs: Sequence[Shape]) -> Sequence[Mapping[str, int]]:
        """The attributes of each step that the engine makes of it: one for each input."""
        return [self.attributes()]

    def in_inference(self) -> "Operation | None":
        """The operation that predicts in its place; None: its input is handed on."""
        return self


@dataclass(frozen=True)
class Input(Operation):
    """The images."""

    name: ClassVar[str] = "input"
    role: ClassVar[Role] = "input"
    inputs: ClassVar[int] = 0


def require_map(shape: Shape) -> None:
    if len(shape) != 3:
        raise ValueError(f"its input has the shape {shape} and is not a map")


def window_output(size: int, kernel: int, stride: int, before: int, after: int, ceil: bool = False) -> int:
    """How many windows of a kernel fit into a padded row or column, as PyTorch counts them."""
    room = size + before + after - kernel
    count = (-(-room // stride) if ceil else room // stride) + 1
    # A window that would begin in the padding after the row does not count.
    return count - 1 if ceil and (count - 1) * stride >= size + before else count
