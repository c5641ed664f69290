"""From a map to a vector of all its pixels, channel by channel."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from sparcl.operations.average_pool import trace_global
from sparcl.operations.operation import Numbers, OnnxWriter, Operation, Shape, TorchPass, require_map
from sparcl.operations.tracing import Trace, Traced, require, traced, traces_function, traces_layer

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Flatten(Operation):
    name: ClassVar[str] = "flatten"

    def output_shape(self, *inputs: Shape) -> Shape:
        require_map(inputs[0])
        return (math.prod(inputs[0]),)

    def torch(self, inputs: "Sequence[torch.Tensor]", run: TorchPass) -> "torch.Tensor":
        return inputs[0].flatten(1)

    def onnx(self, write: OnnxWriter, name: str, inputs: Sequence[str], output: str, numbers: Numbers) -> None:
        write.node("Flatten", inputs, output)


def _flat(trace: Trace, x: Traced) -> Traced:
    if len(x.shape) == 1:
        return x
    if x.shape[1:] == (1, 1):
        return trace_global(trace, x, flat=True)
    return trace.add(Flatten(), x)


@traces_function("flatten")
def trace_flatten(trace: Trace, input: Any, start_dim: int = 0, end_dim: int = -1) -> Traced:
    x = traced(input)
    axes = len(x.shape) + 1
    require("start_dim", start_dim % axes, 1)
    require("end_dim", end_dim % axes, axes - 1)
    return _flat(trace, x)


@traces_layer("Flatten")
def trace_flatten_layer(trace: Trace, layer: Any, x: Traced) -> Traced:
    return trace_flatten(trace, x, layer.start_dim, layer.end_dim)


@traces_function("view", "reshape")
def trace_view(trace: Trace, input: Any, *shape: Any) -> Traced:
    x = traced(input)
    sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
    if len(sizes) != 2 or sizes[0] != -1 or sizes[1] not in (-1, math.prod(x.shape)):
        raise ValueError(f"the shape {sizes} is not supported (only flattening, as in x.view(x.size(0), -1))")
    return _flat(trace, x)


@traces_function("size")
def trace_size(trace: Trace, input: Any, dim: int | None = None) -> Any:
    sizes = (-1, *traced(input).shape)  # -1: the batch may have any size
    return sizes if dim is None else sizes[dim]


@traces_function("getattr")
def trace_getattr(trace: Trace, input: Any, name: str) -> Any:
    require("attribute", name, "shape")
    return trace_size(trace, input)


@traces_function("getitem")
def trace_getitem(trace: Trace, sizes: Any, index: Any) -> Any:
    if not isinstance(sizes, tuple):
        raise ValueError("tensors cannot be indexed")
    return sizes[index]


@traces_function("contiguous")
def trace_contiguous(trace: Trace, input: Any) -> Traced:
    return traced(input)


@traces_layer("Identity")
def trace_identity(trace: Trace, layer: Any, x: Traced) -> Traced:
    return x
