"""The native engine (native/bindings.cpp): arrays are C-contiguous, and used in place where they are written to."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

def instruction_set() -> str: ...
def available_instruction_sets() -> list[str]: ...

MAX_THREADS: int
TILE_SHAPES: tuple[tuple[int, int], ...]  # rows and columns of the tiles that convolutions are computed in

def usable_cores() -> int: ...
def threads() -> int: ...
def set_threads(count: int) -> None: ...
def augment(
    images: NDArray[np.uint8],
    positions: NDArray[np.int64],
    shifts: NDArray[np.int32],
    flips: NDArray[np.uint8],
    mean: NDArray[np.float32],
    scale: NDArray[np.float32],
    output: NDArray[np.float32],
) -> None: ...
def sgd(
    values: NDArray[np.float32],
    gradients: NDArray[np.float32],
    velocity: NDArray[np.float32] | None,
    learning_rate: float,
    momentum: float,
    weight_decay: float,
    moves: NDArray[np.uint8] | None = None,
    nesterov: bool = False,
) -> None: ...
def adamw(
    values: NDArray[np.float32],
    gradients: NDArray[np.float32],
    mean: NDArray[np.float32],
    square: NDArray[np.float32],
    steps: NDArray[np.int32],
    moves: NDArray[np.uint8] | None,
    corrections: NDArray[np.float32],
    learning_rate: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    weight_decay: float,
) -> None: ...
def lanes() -> int: ...
def operations() -> list[str]: ...
def digest(numbers: NDArray[np.floating]) -> int: ...

Extent = tuple[int, int, int, int, int]

class Engine:
    def add_convolution(self, kernel: int, stride: int, input: Extent, output: Extent) -> int: ...
    def add_norm(self, channels: int, normalises: bool, epsilon: float = 0.0, momentum: float = 0.0) -> int: ...
    def add_operation(
        self, name: str, input: tuple[int, ...], output: tuple[int, ...], attributes: Sequence[int]
    ) -> int: ...
    def set_sizes(self, values: int, statistics: int) -> None: ...
    def bind_convolution(
        self, layer: int, offset: int, positions: NDArray[np.int32], places: NDArray[np.int32] | None = None
    ) -> None: ...
    def move_convolution(self, layer: int, offset: int) -> None: ...
    def bind_norm(self, layer: int, weight: int, bias: int, mean: int, variance: int) -> None: ...
    def bind_operation(self, layer: int, weight: int, bias: int, statistics: int) -> None: ...
    def fix_norm(self, layer: int, fixed: bool) -> None: ...
    def set_updated(self, layer: int, chosen: NDArray[np.int32] | None) -> None: ...
    def set_knobs(
        self, layer: int, forward: tuple[int, int], data: tuple[int, int], gradient: tuple[int, bool]
    ) -> None: ...
    def knobs(self, layer: int) -> tuple[tuple[int, int], tuple[int, int], tuple[int, bool]]: ...
    def uses_winograd(self, layer: int) -> bool: ...
    def refresh(self, values: NDArray[np.float32], for_training: bool, threads: int) -> None: ...

class Arena:
    def __init__(self, floats: int) -> None: ...
    @property
    def size(self) -> int: ...

class Step:
    def __init__(
        self,
        op: str,
        layer: int = -1,
        a: int = -1,
        b: int = -1,
        c: int = -1,
        out: int = -1,
        norm_a: int = -1,
        norm_b: int = -1,
        mask: int = -1,
        state_a: int = -1,
        state_b: int = -1,
        activation: str = "none",
        recompute: bool = False,
        write_gated: bool = False,
        accumulate: bool = False,
    ) -> None: ...

class Program:
    def __init__(
        self,
        engine: Engine,
        images: int,
        arena: int,
        forward_steps: int,
        maps: Sequence[tuple[int, Extent]],
        steps: Sequence[Step],
    ) -> None: ...
    def forward(
        self,
        arena: Arena,
        images: NDArray[np.float32],
        logits: NDArray[np.float32],
        values: NDArray[np.floating],
        gradients: NDArray[np.floating],
        statistics: NDArray[np.floating],
        training: bool,
        momentum: float,
        threads: int,
    ) -> None: ...
    def backward(
        self,
        arena: Arena,
        d_logits: NDArray[np.float32],
        values: NDArray[np.floating],
        gradients: NDArray[np.floating],
        statistics: NDArray[np.floating],
        training: bool,
        dense_gradients: dict[int, NDArray[np.float32]],
        threads: int,
    ) -> None: ...
    def run_steps(
        self,
        arena: Arena,
        steps: list[int],
        values: NDArray[np.floating],
        gradients: NDArray[np.floating],
        statistics: NDArray[np.floating],
        threads: int,
    ) -> None: ...

class ModelError(ValueError): ...

class Node:
    def __init__(
        self,
        name: str,
        op: str,
        inputs: Sequence[int],
        shape: Sequence[int],
        attributes: dict[str, int],
        values: NDArray[np.float32] | None = None,
        positions: NDArray[np.int32] | None = None,
        bias: NDArray[np.float32] | None = None,
    ) -> None: ...

class Model:
    def __init__(self, path: bytes) -> None: ...
    @staticmethod
    def from_nodes(nodes: Sequence[Node]) -> Model: ...
    @property
    def steps(self) -> list[dict[str, str]]: ...
    @property
    def outputs(self) -> int: ...
    @property
    def classes(self) -> list[str]: ...
    @property
    def precision(self) -> str: ...
    @property
    def mean(self) -> list[float]: ...
    @property
    def deviation(self) -> list[float]: ...
    @property
    def input_shape(self) -> tuple[int, int, int]: ...
    def predict(self, images: NDArray[np.float32], logits: NDArray[np.float32], threads: int) -> None: ...
    def predict_pixels(self, images: NDArray[np.uint8], logits: NDArray[np.float32], threads: int) -> None: ...
