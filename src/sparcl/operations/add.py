"""The sum of two maps, or of two vectors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from sparcl.operations.operation import Numbers, OnnxWriter, Operation, Role, Shape, TorchPass
from sparcl.operations.tracing import Trace, Traced, require, traced, traces_function

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Add(Operation):
    name: ClassVar[str] = "add"
    role: ClassVar[Role] = "sum"
    inputs: ClassVar[int] = 2

    def output_shape(self, *inputs: Shape) -> Shape:
        if inputs[0] != inputs[1]:
            raise ValueError(f"the shapes {inputs[0]} and {inputs[1]} cannot be added")
        return inputs[0]

    def torch(self, inputs: "Sequence[torch.Tensor]", run: TorchPass) -> "torch.Tensor":
        return inputs[0] + inputs[1]

    def onnx(self, write: OnnxWriter, name: str, inputs: Sequence[str], output: str, numbers: Numbers) -> None:
        write.node("Add", inputs, output)


@traces_function("add")
def trace_add(trace: Trace, input: Any, other: Any, *, alpha: float = 1) -> Traced:
    if not isinstance(input, Traced) or not isinstance(other, Traced):
        raise ValueError("only two tensors can be added")
    require("alpha", alpha, 1)
    if (input.shape, input.pooled) != (other.shape, other.pooled):
        raise ValueError(f"tensors of the shapes {input.shape} and {other.shape} cannot be added")
    return trace.add(Add(), input, other)


@traces_function("add_", "iadd")
def trace_add_in_place(trace: Trace, input: Any, other: Any, *, alpha: float = 1) -> Traced:
    return trace.overwrite(traced(input), trace_add(trace, input, other, alpha=alpha))
