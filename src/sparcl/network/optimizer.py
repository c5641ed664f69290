"""Stochastic gradient descent on the flat parameter store."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparcl import _engine
from sparcl.network.parameters import Parameters


class Sgd:
    """Plain by default, as in the paper; momentum and weight decay follow PyTorch's definition."""

    def __init__(
        self, parameters: Parameters, learning_rate: float, momentum: float = 0.0, weight_decay: float = 0.0
    ) -> None:
        self.parameters = parameters
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.velocity: NDArray[Any] | None = np.zeros_like(parameters.values.flat) if momentum else None

    def step(self) -> None:
        """Apply the accumulated gradients and clear them."""
        _engine.sgd(
            self.parameters.values.flat,
            self.parameters.gradients.flat,
            self.velocity,
            self.learning_rate,
            self.momentum,
            self.weight_decay,
        )
