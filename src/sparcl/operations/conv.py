"""Convolutions: ordinary ones, which may be sparse, and depthwise ones, which stay dense."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparcl.operations.operation import (
    Numbers,
    OnnxWriter,
    Operation,
    Role,
    Shape,
    TorchPass,
    require_map,
    window_output,
)
from sparcl.operations.tracing import (
    Trace,
    Traced,
    require,
    require_channels,
    traced,
    traces_function,
    traces_layer,
    whole,
)
from sparcl.operations.tracing import require_map as require_traced_map

if TYPE_CHECKING:
    import torch

MAX_KERNEL = 7
MAX_STRIDE = 4


@dataclass(frozen=True)
class Conv(Operation):
    """`padding` zeros go before the rows and columns, `padding_after` behind them; by default stride 1 keeps the size.

    With `groups` equal to the number of channels it is depthwise: every channel has a window of its own.
    """

    name: ClassVar[str] = "conv"
    channels: int
    kernel: int = 3
    stride: int = 1
    padding: int = -1  # -1: half of the kernel
    padding_after: int = -1  # -1: the same
    groups: int = 1
    bias: bool = False

    def __post_init__(self) -> None:
        before = self.kernel // 2 if self.padding < 0 else self.padding
        object.__setattr__(self, "padding", before)
        object.__setattr__(self, "padding_after", before if self.padding_after < 0 else self.padding_after)

    @property
    def role(self) -> Role:  # type: ignore[override]
        return "convolution" if self.may_be_sparse else "kernel"

    @property
    def depthwise(self) -> bool:
        return self.groups > 1

    @property
    def may_be_sparse(self) -> bool:
        """Whether the engine has it as a list of weights, of which some may be missing."""
        half = self.kernel // 2
        return (
            self.groups == 1
            and self.kernel in (1, 3)
            and self.stride in (1, 2)
            and (self.padding, self.padding_after) == (half, half)
        )

    @property
    def is_projection(self) -> bool:
        """1x1 and skipping pixels: the shortcut of a residual block that halves its map."""
        return self.kernel == 1 and self.stride > 1

    @property
    def backward_reads(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("input",)

    def output_shape(self, *inputs: Shape) -> Shape:
        require_map(inputs[0])
        if self.groups not in (1, inputs[0][0]) or (self.depthwise and self.channels != self.groups):
            raise ValueError(f"groups={self.groups} is neither 1 nor a group for each of {inputs[0][0]} channels")
        sizes = (
            window_output(size, self.kernel, self.stride, self.padding, self.padding_after) for size in inputs[0][1:]
        )
        return (self.channels, *sizes)

    def parameters(self, inputs: Sequence[Shape], output: Shape) -> Mapping[str, Shape]:
        weight = {"weight": (self.channels, inputs[0][0] // self.groups, self.kernel, self.kernel)}
        return {**weight, "bias": (self.channels,)} if self.bias else weight

    def macs(self, inputs: Sequence[Shape], output: Shape) -> int:
        return math.prod(self.parameters(inputs, output)["weight"]) * math.prod(output[1:])

    def unsupported(self, inputs: Sequence[Shape], output: Shape) -> str | None:
        kind = f"a {self.kernel}x{self.kernel} convolution of stride {self.stride}"
        if self.kernel % 2 == 0 or self.kernel > MAX_KERNEL or self.stride > MAX_STRIDE:
            return (
                f"is {kind}; the engine has odd kernels up to {MAX_KERNEL}x{MAX_KERNEL} and strides up to {MAX_STRIDE}"
            )
        if max(self.padding, self.padding_after) >= self.kernel:
            return f"is {kind} padded by {self.padding}; the engine pads by less than the kernel"
        size = math.prod(self.parameters(inputs, output)["weight"])
        return f"has {size} weights; the engine counts to 2^31" if size >= 2**31 else None

    def torch(self, inputs: "Sequence[torch.Tensor]", run: TorchPass) -> "torch.Tensor":
        from torch.nn import functional

        x, stride = inputs[0], self.stride
        padding = self.padding
        if self.padding_after != self.padding:
            x = functional.pad(x, (padding, self.padding_after, padding, self.padding_after))
            padding = 0
        if self.kernel == 1 and stride > 1:
            # With strided 1x1 convolutions of few channels, PyTorch 2.13 writes beyond its memory in the weight
            # gradient (oneDNN, channels_last). The pixels it would skip are left out here instead.
            x, stride = x[:, :, ::stride, ::stride], 1
        weight = run.parameter("weight")
        assert weight is not None
        return functional.conv2d(x, weight, run.parameter("bias"), stride, padding, groups=self.groups)

    def onnx(self, write: OnnxWriter, name: str, inputs: Sequence[str], output: str, numbers: Numbers) -> None:
        weight = write.constant(f"{name}.weight", numbers.weight(), (self.channels, -1, self.kernel, self.kernel))
        bias = write.constant(f"{name}.bias", numbers.bias(), (-1,))
        write.node(
            "Conv",
            [*inputs, weight, bias],
            output,
            pads=[self.padding] * 2 + [self.padding_after] * 2,
            strides=[self.stride] * 2,
            group=self.groups,
        )

    def described(self) -> str:
        kind = "depthwise" if self.depthwise else "conv"
        return f"{kind} {self.kernel}x{self.kernel} /{self.stride}"

    def engine_name(self) -> str:
        return "conv" if self.may_be_sparse else "depthwise" if self.depthwise else "dense_conv"

    def engine_weight(self, weight: NDArray[Any], inputs: Sequence[Shape]) -> NDArray[Any]:
        if self.engine_name() != "dense_conv":
            return weight
        ordered = weight.reshape(self.channels, inputs[0][0], self.kernel, self.kernel).transpose(0, 2, 3, 1)
        return np.ascontiguousarray(ordered).reshape(-1)

    def attributes(self) -> Mapping[str, int]:
        window = {"kernel": self.kernel, "stride": self.stride}
        return window if self.may_be_sparse else {**window, "padding": self.padding}

    def in_inference(self) -> Operation:
        return replace(self, bias=True)  # norms are folded into it


@traces_layer("Conv2d")
def trace_conv(trace: Trace, layer: Any, x: Traced) -> Traced:
    kernel, stride = whole("kernel_size", layer.kernel_size), whole("stride", layer.stride)
    padding = layer.padding
    if isinstance(padding, str):
        if padding == "same" and kernel % 2 == 0:
            raise ValueError("padding='same' is not supported for even kernels")
        padding = kernel // 2 if padding == "same" else 0
    padding = whole("padding", padding)
    require("dilation", layer.dilation, 1)
    require("padding_mode", layer.padding_mode, "zeros")
    require_traced_map(x)
    require_channels("in_channels", layer.in_channels, x)
    if layer.groups not in (1, layer.in_channels) or (layer.groups > 1 and layer.out_channels != layer.groups):
        raise ValueError(
            f"groups={layer.groups} is not supported (only 1, or depthwise: as many groups as inputs and outputs)"
        )
    left, right, top, bottom = x.padding
    if (left, right) != (top, bottom):
        raise ValueError(f"it is padded by {x.padding} before (only the same in both directions)")
    operation = Conv(
        layer.out_channels,
        kernel,
        stride,
        padding + left,
        padding + right,
        layer.groups,
        layer.bias is not None,
    )
    return trace.add(operation, x, layer=layer)


@traces_layer("ZeroPad2d")
def trace_zero_pad(trace: Trace, layer: Any, x: Traced) -> Traced:
    return trace_pad(trace, x, layer.padding)


@traces_function("pad")
def trace_pad(trace: Trace, input: Any, pad: Any, mode: str = "constant", value: float | None = None) -> Traced:
    x = traced(input)
    require("mode", mode, "constant")
    require("value", value or 0, 0)
    require_traced_map(x)
    if not isinstance(pad, tuple | list) or len(pad) != 4 or not all(isinstance(n, int) and n >= 0 for n in pad):
        raise ValueError(f"pad={pad} is not supported (only four widths of zeros around a map)")
    left, right, top, bottom = (new + old for new, old in zip(pad, x.padding, strict=True))
    return replace(x, padding=(left, right, top, bottom))
