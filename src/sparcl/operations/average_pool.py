"""Average pooling: of windows, to a given size, and of the whole map."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from sparcl.operations.operation import Numbers, OnnxWriter, Operation, Shape, TorchPass, require_map, window_output
from sparcl.operations.tracing import Trace, Traced, require, square, traced, traces_function, traces_layer, whole
from sparcl.operations.tracing import require_map as require_traced_map

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class AveragePool(Operation):
    """Means of windows. Zeros in the padding count, unless `count_padding` is off."""

    name: ClassVar[str] = "average_pool"
    kernel: int = 2
    stride: int = 0  # 0: the kernel
    padding: int = 0
    count_padding: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "stride", self.stride or self.kernel)
        if self.padding > self.kernel // 2:
            raise ValueError(f"padding={self.padding} is more than half of the kernel")

    def output_shape(self, *inputs: Shape) -> Shape:
        require_map(inputs[0])
        channels, *sizes = inputs[0]
        kernel, stride, padding = self.kernel, self.stride, self.padding
        return (channels, *(window_output(size, kernel, stride, padding, padding) for size in sizes))

    def attributes(self) -> Mapping[str, int]:
        counted = int(self.count_padding)
        return {"kernel": self.kernel, "stride": self.stride, "padding": self.padding, "count_padding": counted}

    def torch(self, inputs: "Sequence[torch.Tensor]", run: TorchPass) -> "torch.Tensor":
        from torch.nn import functional

        return functional.avg_pool2d(
            inputs[0], self.kernel, self.stride, self.padding, count_include_pad=self.count_padding
        )

    def onnx(self, write: OnnxWriter, name: str, inputs: Sequence[str], output: str, numbers: Numbers) -> None:
        write.node(
            "AveragePool",
            inputs,
            output,
            kernel_shape=[self.kernel] * 2,
            strides=[self.stride] * 2,
            pads=[self.padding] * 4,
            count_include_pad=int(self.count_padding),
        )


@dataclass(frozen=True)
class GlobalAveragePool(Operation):
    """The mean of each channel: from a map to a vector."""

    name: ClassVar[str] = "global_average_pool"

    def output_shape(self, *inputs: Shape) -> Shape:
        require_map(inputs[0])
        return inputs[0][:1]

    def torch(self, inputs: "Sequence[torch.Tensor]", run: TorchPass) -> "torch.Tensor":
        return inputs[0].mean((2, 3))

    def onnx(self, write: OnnxWriter, name: str, inputs: Sequence[str], output: str, numbers: Numbers) -> None:
        write.node("GlobalAveragePool", inputs, f"{output}:map")
        write.node("Flatten", [f"{output}:map"], output)


def trace_global(trace: Trace, x: Traced, flat: bool) -> Traced:
    """Torch keeps a map of one pixel (`flat` false) where the graph has a vector."""
    if len(x.shape) != 3:
        raise ValueError(f"its input has the shape {x.shape} and is not a map")
    node = x.node if x.pooled else trace.add(GlobalAveragePool(), x).node
    return Traced(node, x.shape[:1]) if flat else Traced(node, (x.shape[0], 1, 1), pooled=True)


@traces_function("adaptive_avg_pool2d")
def trace_adaptive(trace: Trace, input: Any, output_size: Any) -> Traced:
    x, size = traced(input), square(output_size)
    if size == 1:
        return trace_global(trace, x, flat=False)
    require_traced_map(x)
    if not isinstance(size, int) or any(side % size for side in x.shape[1:]) or len(set(x.shape[1:])) != 1:
        raise ValueError(
            f"output_size={output_size} of a map of {x.shape[1]}x{x.shape[2]} pixels is not supported (only 1, and "
            "sizes that divide a square map)"
        )
    kernel = x.shape[1] // size
    return x if kernel == 1 else trace.add(AveragePool(kernel), x)


@traces_layer("AdaptiveAvgPool2d")
def trace_adaptive_layer(trace: Trace, layer: Any, x: Traced) -> Traced:
    return trace_adaptive(trace, x, layer.output_size)


@traces_function("avg_pool2d")
def trace_average_pool(
    trace: Trace,
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Traced:
    x = traced(input)
    require("divisor_override", divisor_override, None)
    padding = whole("padding", padding)
    if not padding and square(kernel_size) == square(x.shape[1:]):  # one window: the stride does not matter
        return trace_global(trace, x, flat=False)
    require_traced_map(x)
    require("ceil_mode", ceil_mode, False)
    kernel = whole("kernel_size", kernel_size)
    return trace.add(AveragePool(kernel, whole("stride", stride or kernel), padding, count_include_pad), x)


@traces_layer("AvgPool2d")
def trace_average_pool_layer(trace: Trace, layer: Any, x: Traced) -> Traced:
    return trace_average_pool(
        trace,
        x,
        layer.kernel_size,
        layer.stride,
        layer.padding,
        layer.ceil_mode,
        layer.count_include_pad,
        layer.divisor_override,
    )


@traces_function("mean")
def trace_mean(trace: Trace, input: Any, dim: Any = None, keepdim: bool = False) -> Traced:
    x = traced(input)
    axes = [axis % 4 for axis in dim] if isinstance(dim, tuple | list) else []
    if sorted(axes) != [2, 3]:
        raise ValueError(f"dim={dim} is not supported (only dim=(2, 3))")
    return trace_global(trace, x, flat=not keepdim)
