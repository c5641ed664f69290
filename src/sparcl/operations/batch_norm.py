"""Batch normalisation of maps, with running statistics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparcl.operations.operation import Numbers, OnnxWriter, Operation, Role, Shape, TorchPass
from sparcl.operations.tracing import Trace, Traced, require, require_channels, require_map, traces_layer

if TYPE_CHECKING:
    import torch

MOMENTUM = 0.1
EPSILON = 1e-5


@dataclass(frozen=True)
class BatchNorm(Operation):
    name: ClassVar[str] = "batch_norm"
    role: ClassVar[Role] = "norm"
    epsilon: float = EPSILON
    momentum: float = MOMENTUM  # of the running statistics

    def parameters(self, inputs: Sequence[Shape], output: Shape) -> Mapping[str, Shape]:
        return {"weight": output[:1], "bias": output[:1]}

    def statistics(self, inputs: Sequence[Shape], output: Shape) -> Mapping[str, Shape]:
        return {"running_mean": output[:1], "running_var": output[:1]}

    def initialise(self, values: Mapping[str, NDArray[Any]], generator: "np.random.Generator") -> None:
        values["weight"][...] = 1.0
        values["bias"][...] = 0.0

    def initialise_statistics(self, values: Mapping[str, NDArray[Any]]) -> None:
        values["running_var"][...] = 1.0

    def torch(self, inputs: "Sequence[torch.Tensor]", run: TorchPass) -> "torch.Tensor":
        from torch.nn import functional

        return functional.batch_norm(
            inputs[0],
            run.statistic("running_mean"),
            run.statistic("running_var"),
            run.parameter("weight"),
            run.parameter("bias"),
            run.train,
            self.momentum if run.momentum is None else run.momentum,
            self.epsilon,
        )

    def scale_and_shift(
        self, values: Mapping[str, NDArray[Any]], statistics: Mapping[str, NDArray[Any]]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """With constant statistics it is a scale and a shift for each channel."""
        mean, variance = (statistics[f"running_{part}"].astype(np.float64) for part in ("mean", "var"))
        scale = values["weight"] / np.sqrt(variance + self.epsilon)
        return scale, values["bias"] - mean * scale

    def in_inference(self) -> Operation:
        return Affine()


@dataclass(frozen=True)
class Affine(Operation):
    """A scale and a shift for each channel: what a batch normalisation that follows no convolution becomes."""

    name: ClassVar[str] = "affine"

    def onnx(self, write: OnnxWriter, name: str, inputs: Sequence[str], output: str, numbers: Numbers) -> None:
        scale = write.constant(f"{name}.weight", numbers.weight(), (1, -1, 1, 1))
        shift = write.constant(f"{name}.bias", numbers.bias(), (1, -1, 1, 1))
        write.node("Mul", [*inputs, scale], f"{output}:scaled")
        write.node("Add", [f"{output}:scaled", shift], output)


@traces_layer("BatchNorm2d")
def trace_batch_norm(trace: Trace, layer: Any, x: Traced) -> Traced:
    if not isinstance(layer.momentum, float):
        raise ValueError(f"momentum={layer.momentum} is not supported (only a number)")
    require("affine", layer.affine, True)
    require("track_running_stats", layer.track_running_stats, True)
    require("bias", layer.bias is not None, True)
    require_map(x)
    require_channels("num_features", layer.num_features, x)
    return trace.add(BatchNorm(layer.eps, layer.momentum), x, layer=layer)
