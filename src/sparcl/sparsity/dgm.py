"""Dynamic gradient masking: of the active weights only the most important are updated.

Every `interval` steps, and after every change of the active weights, the step's own backward passes run on all active
weights, and their gradients say which ones matter: CGI = alpha |grad of the current batch| + beta |grad of the replayed
batches|. A share q of the layer's weights, those of lowest CGI, then gets no gradients until the next refresh. A method
that puts both batches into one pass (ER, iCaRL, DER++ with `one_pass`) gives one gradient, which is taken as it is.
"""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparcl.network import Parameters
from sparcl.sparsity.layers import Layer
from sparcl.sparsity.masks import top_k

GradientScore = Literal["cgi", "magnitude"]


class GradientMasks:
    def __init__(
        self,
        parameters: Parameters,
        layers: list[Layer],
        *,
        masked: Mapping[str, int],
        interval: int,
        alpha: float,
        beta: float,
        score: GradientScore,
        average: float,
    ) -> None:
        self._parameters, self._layers = parameters, layers
        self._masked, self._interval = masked, interval  # how many weights of each layer get no gradients
        self._alpha, self._beta, self._score = alpha, beta, score
        self._average = average
        self.steps_since_refresh = -1  # no refresh yet
        self.layout = -1  # of the parameters, at the last refresh
        self.averages: dict[str, NDArray[Any]] = {}
        self.refreshing = False
        self._current: NDArray[Any] | None = None  # what the step's passes over the current batch added
        self._replayed: NDArray[Any] | None = None  # and those over replayed batches only

    def counts(self) -> dict[str, int]:
        """How many weights of each layer are updated between refreshes."""
        index = self._parameters.index
        return {layer.name: max(0, len(index[layer.name]) - self._masked[layer.name]) for layer in self._layers}

    def begin_step(self) -> None:
        due = self.steps_since_refresh < 0 or self.steps_since_refresh >= self._interval
        self.refreshing = due or self.layout != self._parameters.layout
        self.steps_since_refresh = 1 if self.refreshing else self.steps_since_refresh + 1
        if self.refreshing:
            self._parameters.updated = {}
            self._current = self._replayed = None

    def after_backward(self, only_replayed: bool) -> None:
        # Taken at once: a method may do what it likes with the gradients before it applies them.
        if not self.refreshing:
            return
        total = self._parameters.gradients.flat
        if only_replayed:
            self._replayed = total.copy() if self._current is None else total - self._current
        else:
            self._current = total.copy() if self._replayed is None else total - self._replayed

    def before_update(self) -> None:
        """At a refresh: choose, and clear the gradients of the weights that were not chosen.

        A method that updates twice in a step has its weights chosen at the first update.
        """
        if not self.refreshing:
            return
        if self.layout != self._parameters.layout:
            self.averages = {}
        for layer in self._layers:
            where = self._parameters.gradients.slices[layer.name]
            scores = self._scores(where)
            if self._average:
                scores = (1 - self._average) * scores + self._average * self.averages.get(layer.name, scores)
                self.averages[layer.name] = scores
            updated = top_k(scores, self.counts()[layer.name])
            outside = np.ones(len(scores), bool)
            outside[updated] = False
            self._parameters.gradients.flat[where][outside] = 0.0
            self._parameters.updated[layer.name] = updated
        self.layout = self._parameters.layout
        self.refreshing = False
        self._current = None

    def _scores(self, where: slice) -> NDArray[Any]:
        if self._score == "magnitude" or self._current is None:
            return np.asarray(np.abs(self._parameters.gradients.flat[where]))
        current = self._alpha * np.abs(self._current[where])
        if self._replayed is None:
            return np.asarray(current)
        return np.asarray(current + self._beta * np.abs(self._replayed[where]))

    def state(self) -> dict[str, NDArray[Any]]:
        # A layout is not comparable between processes; what matters is whether it has changed since the refresh.
        unchanged = self.layout == self._parameters.layout
        arrays: dict[str, NDArray[Any]] = {"clock": np.array([self.steps_since_refresh, unchanged], np.int64)}
        if unchanged:  # averages of other weights are of no use, and the next refresh drops them
            arrays |= {f"average.{name}": average for name, average in self.averages.items()}
        return arrays

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        self.steps_since_refresh, unchanged = (int(number) for number in state["clock"])
        self.layout = self._parameters.layout if unchanged else -1
        prefix = "average."
        self.averages = {key.removeprefix(prefix): state[key].copy() for key in state if key.startswith(prefix)}
        if any(len(average) != len(self._parameters.index[name]) for name, average in self.averages.items()):
            raise ValueError("the averages do not fit the weights")
