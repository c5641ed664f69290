"""The linear layer, from a vector to a vector."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from sparcl.operations.operation import Numbers, OnnxWriter, Operation, Shape, TorchPass
from sparcl.operations.tracing import Trace, Traced, require, require_channels, traces_layer

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Linear(Operation):
    name: ClassVar[str] = "linear"
    backward_reads: ClassVar[tuple[str, ...]] = ("input",)
    features: int

    def output_shape(self, *inputs: Shape) -> Shape:
        if len(inputs[0]) != 1:
            raise ValueError(f"its input has the shape {inputs[0]} and must be pooled or flattened first")
        return (self.features,)

    def parameters(self, inputs: Sequence[Shape], output: Shape) -> Mapping[str, Shape]:
        return {"weight": (self.features, inputs[0][0]), "bias": (self.features,)}

    def macs(self, inputs: Sequence[Shape], output: Shape) -> int:
        return math.prod(self.parameters(inputs, output)["weight"])

    def torch(self, inputs: "Sequence[torch.Tensor]", run: TorchPass) -> "torch.Tensor":
        from torch.nn import functional

        weight = run.parameter("weight")
        assert weight is not None
        return functional.linear(inputs[0], weight, run.parameter("bias"))

    def onnx(self, write: OnnxWriter, name: str, inputs: Sequence[str], output: str, numbers: Numbers) -> None:
        weight = write.constant(f"{name}.weight", numbers.weight(), (self.features, -1))
        bias = write.constant(f"{name}.bias", numbers.bias(), (-1,))
        write.node("Gemm", [*inputs, weight, bias], output, transB=1)


@traces_layer("Linear")
def trace_linear(trace: Trace, layer: Any, x: Traced) -> Traced:
    require("bias", layer.bias is not None, True)
    if len(x.shape) != 1:
        raise ValueError(f"its input has the shape {x.shape} and must be pooled and flattened first")
    require_channels("in_features", layer.in_features, x)
    return trace.add(Linear(layer.out_features), x, layer=layer)
