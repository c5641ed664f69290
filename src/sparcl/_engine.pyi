"""The native engine (native/bindings.cpp): every array is C-contiguous and is used in place, never copied."""

import numpy as np
from numpy.typing import NDArray

def instruction_set() -> str: ...
def available_instruction_sets() -> list[str]: ...
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
) -> None: ...
