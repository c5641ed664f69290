"""Optimizers on the flat parameter store. Their definitions are PyTorch's.

What an optimizer remembers of each value (its velocity, its moments) are slots of the parameters: when the active
weights change, slots move with the weights that stay and are zero for those that are new. Slots are made by the first
step, so that nothing is stored before and after a task.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sparcl import _engine
from sparcl.checked import Bounds, Checked, setting
from sparcl.errors import SparclError
from sparcl.network.parameters import FlatStore, Index, Parameters

# The bias corrections of AdamW are looked up, and take longer to become 1 the closer a beta is to 1.
Beta = Annotated[float, Bounds(ge=0, le=0.9999)]
Slots = Mapping[str, DTypeLike]
ADAMW_SLOTS: Slots = {"first_moment": np.float32, "second_moment": np.float32, "steps": np.int32}


class OptimizerSettings(Checked):
    """The learning rate and the weight decay are the method's: what is best differs from method to method."""

    name: Literal["sgd", "adamw"] = setting(default="sgd", meaning="sgd: gradient descent; adamw: AdamW")
    momentum: float = setting(default=0.0, ge=0, lt=1, meaning="sgd: share of the last step that is added to the next")
    nesterov: bool = setting(default=False, meaning="sgd: Nesterov momentum")
    betas: tuple[Beta, Beta] = setting(
        default=(0.9, 0.999), meaning="adamw: how much of the averages of the gradient and of its square stays"
    )
    eps: float = setting(default=1e-8, gt=0, meaning="adamw: added to the root of the average square")

    def check_options(self) -> None:
        """Raises SparclError for those that the chosen optimizer does not have."""
        default = OptimizerSettings()
        if self.name == "adamw" and (self.momentum or self.nesterov):
            raise SparclError("optimizer.momentum and optimizer.nesterov are for optimizer=sgd; adamw has its betas.")
        if self.name == "sgd" and (self.betas, self.eps) != (default.betas, default.eps):
            raise SparclError("optimizer.betas and optimizer.eps are for optimizer=adamw.")
        if self.nesterov and not self.momentum:
            raise SparclError("optimizer.nesterov=true needs a momentum, for example optimizer.momentum=0.9.")

    def slots(self) -> int:
        """Numbers that are kept for each value that is trained."""
        return len(ADAMW_SLOTS) if self.name == "adamw" else int(self.momentum > 0)


class Optimizer(ABC):
    """Applies gradients to values, each with its part's share of the learning rate, except where nothing may move."""

    def __init__(self, parameters: Parameters, slots: Slots, learning_rate: float, weight_decay: float) -> None:
        self.parameters = parameters
        self.slots = slots
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.factor = 1.0  # of the learning rate, as a schedule has it for the next step
        parameters.slots = {}
        self._ranges: list[tuple[slice, float]] = []
        self._layout = -1  # of the parameters, for which the ranges are
        self._masked_for: dict[str, Index] = {}
        self._mask: NDArray[np.uint8] | None = None

    @property
    def rate(self) -> float:
        """The learning rate of the next step."""
        return self.learning_rate * self.factor

    def step(self, trainable: NDArray[np.bool_] | None = None) -> None:
        """Apply the accumulated gradients and clear them. Values that are not `trainable` stay as they are, exactly."""
        parameters = self.parameters
        if self.slots and not parameters.slots:
            parameters.slots = self._new_slots()
        if self._layout != parameters.layout:
            self._ranges, self._mask, self._layout = list(_ranges(parameters)), None, parameters.layout
        moves = self._moves(trainable)
        for where, multiplier in self._ranges:
            if multiplier:
                self._update(where, self.rate * multiplier, None if moves is None else moves[where])
            elif parameters.gradients.flat[where].any():  # only then: memory that nobody writes to is not taken
                parameters.gradients.flat[where] = 0.0

    @abstractmethod
    def _update(self, where: slice, rate: float, moves: NDArray[np.uint8] | None) -> None:
        """Apply the gradients of a range of the flat store, and clear them."""

    @property
    @abstractmethod
    def _drifts(self) -> bool:
        """Whether a value would move without a gradient."""

    def _moves(self, trainable: NDArray[np.bool_] | None) -> NDArray[np.uint8] | None:
        """One for every value that may move; None if all may."""
        chosen = None if trainable is None else np.ascontiguousarray(trainable).view(np.uint8)
        updated = self.parameters.updated
        if not updated or not self._drifts:
            return chosen
        same = updated.keys() == self._masked_for.keys()
        if self._mask is None or not same or any(self._masked_for[name] is not updated[name] for name in updated):
            self._mask, self._masked_for = _mask(self.parameters), dict(updated)
        return self._mask if chosen is None else self._mask & chosen

    def _new_slots(self) -> dict[str, FlatStore]:
        values = self.parameters.values
        specs = list(values.specs.values())
        return {name: FlatStore(specs, dtype, values.index) for name, dtype in self.slots.items()}

    def state(self) -> dict[str, NDArray[Any]]:
        """The slots; none before the first step."""
        return {name: slot.flat for name, slot in self.parameters.slots.items()}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Raises ValueError if this is not the state of such an optimizer for these parameters."""
        made = self._new_slots() if state else {}
        if made.keys() != state.keys():
            raise ValueError("the optimizer's state is that of another one")
        for name, slot in made.items():
            numbers = state[name]
            if (numbers.shape, numbers.dtype) != (slot.flat.shape, slot.flat.dtype) or not np.isfinite(numbers).all():
                raise ValueError(f"the optimizer's {name} does not fit the network")
            slot.flat[...] = numbers
        self.parameters.slots = made


class Sgd(Optimizer):
    """Stochastic gradient descent: plain by default, as in the paper."""

    def __init__(
        self,
        parameters: Parameters,
        learning_rate: float,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        super().__init__(parameters, {"velocity": np.float32} if momentum else {}, learning_rate, weight_decay)
        self.momentum, self.nesterov = momentum, nesterov

    @property
    def _drifts(self) -> bool:
        return bool(self.momentum or self.weight_decay)

    def _update(self, where: slice, rate: float, moves: NDArray[np.uint8] | None) -> None:
        parameters = self.parameters
        velocity = parameters.slots["velocity"].flat[where] if self.momentum else None
        special = () if moves is None and not self.nesterov else (moves, self.nesterov)
        _engine.sgd(
            parameters.values.flat[where],
            parameters.gradients.flat[where],
            velocity,
            rate,
            self.momentum,
            self.weight_decay,
            *special,
        )


class AdamW(Optimizer):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019).

    Every weight counts its own steps, so that one that was just grown has its bias corrected as in a first step. Where
    no weights are masked this is PyTorch's AdamW.
    """

    def __init__(
        self,
        parameters: Parameters,
        learning_rate: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(parameters, ADAMW_SLOTS, learning_rate, weight_decay)
        self.betas, self.eps = betas, eps
        self._corrections = bias_corrections(betas)

    @property
    def _drifts(self) -> bool:
        return True

    def _update(self, where: slice, rate: float, moves: NDArray[np.uint8] | None) -> None:
        parameters = self.parameters
        slots: list[NDArray[Any]] = [parameters.slots[name].flat[where] for name in self.slots]
        first, second, steps = slots
        _engine.adamw(
            parameters.values.flat[where],
            parameters.gradients.flat[where],
            first,
            second,
            steps,
            moves,
            self._corrections,
            rate,
            *self.betas,
            self.eps,
            self.weight_decay,
        )

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        super().restore(state)
        if any((state[name] < 0).any() for name in ("second_moment", "steps") if name in state):
            raise ValueError("the optimizer's state is impossible")


def make_optimizer(
    chosen: OptimizerSettings, parameters: Parameters, learning_rate: float, weight_decay: float
) -> Optimizer:
    if chosen.name == "adamw":
        return AdamW(parameters, learning_rate, chosen.betas, chosen.eps, weight_decay)
    return Sgd(parameters, learning_rate, chosen.momentum, weight_decay, chosen.nesterov)


def bias_corrections(betas: tuple[float, float]) -> NDArray[np.float32]:
    """[step][2]: what the averages of gradients and the root of those of their squares are multiplied by.

    The table ends where both are 1 in float32.
    """
    slowest = max(betas)
    length = math.ceil(-25 * math.log(2) / math.log(slowest)) if slowest else 1
    steps = np.arange(1, length + 1)
    table = np.ones((length + 1, 2))
    table[1:, 0] = 1 / (1 - betas[0] ** steps)
    table[1:, 1] = (1 - betas[1] ** steps) ** -0.5
    return table.astype(np.float32)


def _ranges(parameters: Parameters) -> Iterator[tuple[slice, float]]:
    """Ranges of the flat store with one multiplier of the learning rate each."""
    start = stop = 0
    current = 1.0
    for name, where in parameters.values.slices.items():
        multiplier = parameters.rates.get(name, 1.0)
        if multiplier != current and stop > start:
            yield slice(start, stop), current
            start = stop
        current, stop = multiplier, where.stop
    yield slice(start, stop), current


def _mask(parameters: Parameters) -> NDArray[np.uint8]:
    """One for every value that gets gradients now."""
    mask = np.ones(len(parameters.values.flat), np.uint8)
    for name, updated in parameters.updated.items():
        where = mask[parameters.values.slices[name]]
        where[...] = 0
        where[updated] = 1
    return mask
