"""Concatenation of the channels of several maps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar

from sparcl.operations.operation import Numbers, OnnxWriter, Operation, Shape, TorchPass
from sparcl.operations.tracing import Trace, Traced, require, traced, traces_function

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Concat(Operation):
    """The engine copies one input after the other, each to its place among the channels."""

    name: ClassVar[str] = "concat"
    inputs: ClassVar[int] = 0

    def output_shape(self, *inputs: Shape) -> Shape:
        if len({shape[1:] for shape in inputs}) != 1:
            raise ValueError(f"maps of the shapes {', '.join(map(str, inputs))} cannot be put side by side")
        return (sum(shape[0] for shape in inputs), *inputs[0][1:])

    def parts(self, inputs: Sequence[Shape]) -> Sequence[Mapping[str, int]]:
        first = accumulate((shape[0] for shape in inputs[:-1]), initial=0)
        return [{"first": channel} for channel in first]

    def torch(self, inputs: "Sequence[torch.Tensor]", run: TorchPass) -> "torch.Tensor":
        import torch

        return torch.cat(list(inputs), 1)

    def onnx(self, write: OnnxWriter, name: str, inputs: Sequence[str], output: str, numbers: Numbers) -> None:
        write.node("Concat", inputs, output, axis=1)


@traces_function("cat", "concat")
def trace_concat(trace: Trace, tensors: Any, dim: int = 0) -> Traced:
    given = [traced(tensor) for tensor in tensors]
    require("dim", dim % (len(given[0].shape) + 1), 1)
    if len({x.pooled for x in given}) != 1:
        raise ValueError("a map and a vector cannot be put side by side")
    return trace.add(Concat(), *given)
