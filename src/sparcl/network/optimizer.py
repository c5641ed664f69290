"""Stochastic gradient descent on the flat parameter store."""

import numpy as np
from numpy.typing import NDArray

from sparcl import _engine
from sparcl.network.parameters import FlatStore, Parameters


class Sgd:
    """Plain by default, as in the paper; momentum and weight decay follow PyTorch's definition."""

    def __init__(
        self, parameters: Parameters, learning_rate: float, momentum: float = 0.0, weight_decay: float = 0.0
    ) -> None:
        self.parameters = parameters
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.weight_decay = weight_decay
        # The velocity lives with the parameters, because it moves with them when the active weights change.
        like = parameters.gradients
        zeros = FlatStore(list(like.specs.values()), like.flat.dtype, like.index) if momentum else None
        parameters.velocity = zeros

    def step(self, trainable: NDArray[np.bool_] | None = None) -> None:
        """Apply the accumulated gradients and clear them. Values that are not `trainable` stay as they are, exactly."""
        parameters = self.parameters
        frozen = self._frozen() if self.momentum or self.weight_decay else []
        if trainable is not None:
            frozen += [(store, np.flatnonzero(~trainable)) for store in self._stores()]
        kept = [(store, where, store.flat[where]) for store, where in frozen]
        _engine.sgd(
            parameters.values.flat,
            parameters.gradients.flat,
            parameters.velocity.flat if parameters.velocity is not None else None,
            self.learning_rate,
            self.momentum,
            self.weight_decay,
        )
        for store, where, numbers in kept:
            store.flat[where] = numbers

    def _frozen(self) -> list[tuple[FlatStore, np.ndarray]]:
        """Weights that get no gradients now: decay and momentum must not move them either."""
        parameters = self.parameters
        outside = []
        for name, updated in parameters.updated.items():
            where = parameters.values.slices[name]
            mask = np.ones(where.stop - where.start, bool)
            mask[updated] = False
            outside += [(store, where.start + np.flatnonzero(mask)) for store in self._stores()]
        return outside

    def _stores(self) -> list[FlatStore]:
        velocity = self.parameters.velocity
        return [self.parameters.values] if velocity is None else [self.parameters.values, velocity]
