"""Activation functions: ReLU, ReLU6 and hard-swish."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from sparcl.operations.operation import Numbers, OnnxWriter, Operation, Role, TorchPass
from sparcl.operations.tracing import Trace, Traced, traced, traces_function, traces_layer

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Activation(Operation):
    """One that the engine fuses with what it follows: its gradient is that of the output, or zero."""

    role: ClassVar[Role] = "activation"


@dataclass(frozen=True)
class Relu(Activation):
    name: ClassVar[str] = "relu"

    def torch(self, inputs: "Sequence[torch.Tensor]", run: TorchPass) -> "torch.Tensor":
        from torch.nn import functional

        return functional.relu(inputs[0], inplace=run.in_place)

    def onnx(self, write: OnnxWriter, name: str, inputs: Sequence[str], output: str, numbers: Numbers) -> None:
        write.node("Relu", inputs, output)


@dataclass(frozen=True)
class Relu6(Activation):
    name: ClassVar[str] = "relu6"

    def torch(self, inputs: "Sequence[torch.Tensor]", run: TorchPass) -> "torch.Tensor":
        from torch.nn import functional

        return functional.relu6(inputs[0], inplace=run.in_place)

    def onnx(self, write: OnnxWriter, name: str, inputs: Sequence[str], output: str, numbers: Numbers) -> None:
        write.bounds(inputs[0], output, 0.0, 6.0)


@dataclass(frozen=True)
class HardSwish(Operation):
    """x * relu6(x + 3) / 6. Its gradient needs the input, so in training it runs by itself."""

    name: ClassVar[str] = "hard_swish"
    backward_reads: ClassVar[tuple[str, ...]] = ("input",)

    def torch(self, inputs: "Sequence[torch.Tensor]", run: TorchPass) -> "torch.Tensor":
        from torch.nn import functional

        return functional.hardswish(inputs[0])

    def onnx(self, write: OnnxWriter, name: str, inputs: Sequence[str], output: str, numbers: Numbers) -> None:
        write.node("HardSwish", inputs, output)


def _rule(operation: Operation) -> Any:
    def apply(trace: Trace, input: Any, inplace: bool = False) -> Traced:
        x = traced(input)
        result = trace.add(operation, x)
        return trace.overwrite(x, result) if inplace else result

    return apply


for _operation, _class, _function in (
    (Relu(), "ReLU", "relu"),
    (Relu6(), "ReLU6", "relu6"),
    (HardSwish(), "Hardswish", "hardswish"),
):
    _apply = _rule(_operation)
    traces_function(_function)(_apply)
    traces_function(f"{_function}_")(lambda trace, input, _apply=_apply: _apply(trace, input, inplace=True))
    traces_layer(_class)(lambda trace, layer, x, _apply=_apply: _apply(trace, x, layer.inplace))


@traces_function("hardtanh")
def trace_hardtanh(
    trace: Trace, input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Traced:
    """What torch.nn.functional.relu6 is in some versions."""
    if (min_val, max_val) != (0.0, 6.0):
        raise ValueError(f"hardtanh between {min_val} and {max_val} is not supported (only between 0 and 6: ReLU6)")
    return _rule(Relu6())(trace, input, inplace)  # type: ignore[no-any-return]
