"""What a learner needs from a network. NumPy in, NumPy out: methods never see a backend."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sparcl.graph import Graph
from sparcl.network.parameters import Parameters

Images = NDArray[np.float32]  # [batch, channels, height, width], normalised
Logits = NDArray[Any]  # [batch, classes], float32 (float64 in the tests that compare gradients)
Features = NDArray[Any]  # [batch, features], what goes into the classifier
Context = Any  # what a backend remembers of a forward pass for its backward pass


class Network(Protocol):
    graph: Graph
    parameters: Parameters

    def forward(self, images: Images, *, train: bool = True, momentum: float | None = None) -> tuple[Logits, Context]:
        """Logits, and a context for `backward`. Several contexts may be alive, until the parameters change.

        `train` normalises with the batch's own statistics and moves the running ones by `momentum` (None: as each layer
        says, 0 leaves them untouched); otherwise the running statistics are used.
        """

    def backward(
        self, context: Context, d_logits: Logits, dense_gradients: Mapping[str, NDArray[Any]] | None = None
    ) -> None:
        """Add the gradients of a loss, given its derivative by the logits, to `parameters.gradients`.

        A sparse weight gets gradients only where it is active (and only at `parameters.updated`, if that is set). The
        gradients of all positions, active or not, are added to the arrays in `dense_gradients` for the weights there.
        """

    def predict(self, images: Images) -> Logits:
        """Logits with the running statistics, remembering nothing."""

    def release_memory(self) -> None:
        """Give back what is kept for passes to come, because something else needs memory first."""

    def features(self, images: Images) -> Features:
        """What the classifier would get to see, with the running statistics, remembering nothing."""

    def with_parameters(self, parameters: Parameters) -> "Network":
        """The same graph on the same backend with other numbers."""
