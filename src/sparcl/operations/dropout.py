"""Dropout: in training, numbers are zeroed at random and the others scaled up; in inference nothing happens.

Which numbers are zeroed follows from a hash of their place and of a count of the passes so far. The count is a running
statistic: it is stored in checkpoints with the others, so a resumed run draws as if it had never stopped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparcl.operations.operation import Operation, Shape, TorchPass
from sparcl.operations.tracing import Trace, Traced, traced, traces_function, traces_layer

if TYPE_CHECKING:
    import torch

STEPS = 1 << 16  # the engine takes the share to drop as a whole number of these


@dataclass(frozen=True)
class Dropout(Operation):
    name: ClassVar[str] = "dropout"
    state: ClassVar[int] = 1
    share: int  # that is dropped, of STEPS
    seed: int = 0  # of two dropouts in a network, which must not drop the same

    @property
    def probability(self) -> float:
        return self.share / STEPS

    def statistics(self, inputs: Sequence[Shape], output: Shape) -> Mapping[str, Shape]:
        return {"passes": (1,)}

    def attributes(self) -> Mapping[str, int]:
        return {"share": self.share, "seed": self.seed}

    def torch(self, inputs: "Sequence[torch.Tensor]", run: TorchPass) -> "torch.Tensor":
        import torch

        x = inputs[0]
        if not run.train:
            return x
        passes = run.statistic("passes")
        keep = torch.from_numpy(kept(tuple(x.shape), self.share, self.seed, int(passes[0])))
        if run.momentum != 0:
            passes += 1
        return x * keep.to(x.dtype) * (1.0 / (1.0 - self.probability))

    def in_inference(self) -> Operation | None:
        return None


def kept(shape: tuple[int, ...], share: int, seed: int, passes: int) -> NDArray[np.bool_]:
    """Which numbers of a batch stay (native/operations/dropout.inc computes the same)."""
    place = np.arange(int(np.prod(shape)), dtype=np.uint32)
    mixed = _mix(place ^ _mix(np.full_like(place, (seed * 0x9E3779B9 + passes) & 0xFFFFFFFF)))
    return ((mixed >> 16) >= share).reshape(shape)


def _mix(x: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """A hash of 32 bits in which every bit of the input changes about half of the output's."""
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))


@traces_function("dropout")
def trace_dropout(trace: Trace, input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Traced:
    x = traced(input)
    if not training or p == 0:
        return x
    if not 0 <= p < 1:
        raise ValueError(f"p={p} drops everything")
    result = trace.add(Dropout(round(p * STEPS), trace.count(Dropout)), x)
    return trace.overwrite(x, result) if inplace else result


@traces_layer("Dropout")
def trace_dropout_layer(trace: Trace, layer: Any, x: Traced) -> Traced:
    return trace_dropout(trace, x, layer.p, inplace=layer.inplace)
