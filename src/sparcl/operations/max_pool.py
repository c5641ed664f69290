"""Max pooling: any window and stride, padded or not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from sparcl.operations.operation import Numbers, OnnxWriter, Operation, Shape, TorchPass, require_map, window_output
from sparcl.operations.tracing import Trace, Traced, require, traced, traces_function, traces_layer, whole
from sparcl.operations.tracing import require_map as require_traced_map

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class MaxPool(Operation):
    name: ClassVar[str] = "max_pool"
    backward_reads: ClassVar[tuple[str, ...]] = ("input", "output")
    kernel: int = 2
    stride: int = 0  # 0: the kernel
    padding: int = 0
    ceil: bool = False  # a window may begin inside of the map and end outside of it

    def __post_init__(self) -> None:
        object.__setattr__(self, "stride", self.stride or self.kernel)
        if self.padding > self.kernel // 2:
            raise ValueError(f"padding={self.padding} is more than half of the kernel")

    def output_shape(self, *inputs: Shape) -> Shape:
        require_map(inputs[0])
        channels, *sizes = inputs[0]
        kernel, stride, padding = self.kernel, self.stride, self.padding
        return (channels, *(window_output(size, kernel, stride, padding, padding, self.ceil) for size in sizes))

    def attributes(self) -> Mapping[str, int]:
        return {"kernel": self.kernel, "stride": self.stride, "padding": self.padding}

    def torch(self, inputs: "Sequence[torch.Tensor]", run: TorchPass) -> "torch.Tensor":
        from torch.nn import functional

        return functional.max_pool2d(inputs[0], self.kernel, self.stride, self.padding, ceil_mode=self.ceil)

    def onnx(self, write: OnnxWriter, name: str, inputs: Sequence[str], output: str, numbers: Numbers) -> None:
        write.node(
            "MaxPool",
            inputs,
            output,
            kernel_shape=[self.kernel] * 2,
            strides=[self.stride] * 2,
            pads=[self.padding] * 4,
            ceil_mode=int(self.ceil),
        )


@traces_function("max_pool2d")
def trace_max_pool(
    trace: Trace,
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Traced:
    x, kernel = traced(input), whole("kernel_size", kernel_size)
    require_traced_map(x)
    require("dilation", dilation, 1)
    require("return_indices", return_indices, False)
    return trace.add(MaxPool(kernel, whole("stride", stride or kernel), whole("padding", padding), ceil_mode), x)


@traces_layer("MaxPool2d")
def trace_max_pool_layer(trace: Trace, layer: Any, x: Traced) -> Traced:
    return trace_max_pool(
        trace,
        x,
        layer.kernel_size,
        layer.stride,
        layer.padding,
        layer.dilation,
        layer.ceil_mode,
        layer.return_indices,
    )
