"""What every method is made of.

A method is a class with a name, its hyper-parameters as annotated attributes, and `step`, which learns from one batch:

    class FineTuning(Method, name="sgd"):
        def step(self, batch):
            logits = self.descend(batch.images, cross_entropy(batch.labels))
            self.update()
            return logits
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from sparcl.data import Augmentation, Task
from sparcl.generators import Generators
from sparcl.methods.batch import Batch
from sparcl.methods.losses import Loss
from sparcl.network import Logits, Network, Sgd

METHODS: dict[str, type["Method"]] = {}


@dataclass(frozen=True)
class Workplace:
    """What the loop hands to a method."""

    network: Network
    augmentation: Augmentation
    generators: Generators
    buffer_size: int
    replay_batch_size: int


class Method(ABC):
    """Hyper-parameters are the annotated attributes of the class and its bases; the settings give their values."""

    learning_rate: float = 0.03
    weight_decay: float = 0.0

    #: Hyper-parameters found best, by data set and buffer size; the nearest size given is taken.
    tuned: ClassVar[Mapping[str, Mapping[int, Mapping[str, float]]]] = {}
    #: True for a method that gets the data of all tasks at once.
    learns_all_tasks_at_once: ClassVar[bool] = False

    name: ClassVar[str] = ""

    def __init_subclass__(cls, name: str = "", **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if name:
            cls.name = name
            METHODS[name] = cls

    def __init__(self, workplace: Workplace, hyperparameters: Mapping[str, Any]) -> None:
        for key, value in hyperparameters.items():
            setattr(self, key, value)
        self.workplace = workplace
        self.network = workplace.network
        self.optimizer = self._new_optimizer()
        self.loss = 0.0  # of the last step, for display

    @abstractmethod
    def step(self, batch: Batch) -> Logits:
        """Learn from one batch. Returns the network's logits for the batch's samples, from before the update."""

    def begin_task(self, task: Task) -> None:
        """Called before the first step of a task."""
        self.optimizer = self._new_optimizer()

    def end_task(self, task: Task) -> None:  # noqa: B027 (most methods do nothing here)
        """Called after the last step of a task."""

    def descend(self, images: NDArray[np.float32], loss: Loss) -> Logits:
        """One forward and backward pass in training mode; gradients add up until `update`."""
        logits, context = self.network.forward(images)
        value, d_logits = loss(logits)
        self.network.backward(context, d_logits)
        self.loss += value
        return logits

    def update(self) -> None:
        """One step of gradient descent."""
        self.optimizer.step()

    def recalibration_images(self) -> NDArray[np.uint8] | None:
        """Un-augmented images from which batch statistics may be re-estimated; None if the method keeps none."""
        return None

    def state(self) -> dict[str, NDArray[Any]]:
        """Every array that a resumed run needs beside the network's own."""
        velocity = self.optimizer.velocity
        return {} if velocity is None else {"optimizer.velocity": velocity}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        if self.optimizer.velocity is not None:
            self.optimizer.velocity[...] = state["optimizer.velocity"]

    def _new_optimizer(self) -> Sgd:
        return Sgd(self.network.parameters, self.learning_rate, weight_decay=self.weight_decay)

    @classmethod
    def hyperparameters(cls) -> dict[str, tuple[type, Any]]:
        """Name, type and default of every hyper-parameter."""
        return {
            key: (hint, getattr(cls, key))
            for key, hint in get_type_hints(cls).items()
            if get_origin(hint) is not ClassVar and hint is not ClassVar
        }

    @classmethod
    def tuned_for(cls, dataset: str, buffer_size: int) -> dict[str, float]:
        by_size = cls.tuned.get(dataset, {})
        if not by_size:
            return {}
        return dict(by_size[min(by_size, key=lambda size: abs(size - buffer_size))])
