"""What every method is made of.

A method is a class with a name, its hyper-parameters as annotated attributes, and `step`, which learns from one batch:

    class FineTuning(Method, name="sgd"):
        def step(self, batch):
            logits = self.descend(batch.images, cross_entropy(batch.labels))
            self.update()
            return logits
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sparcl.data import Augmentation, Samples, Task
from sparcl.generators import Generators
from sparcl.methods.batch import Batch
from sparcl.methods.losses import Loss, cross_entropy
from sparcl.network import Images, Logits, Network, Optimizer, OptimizerSettings, make_optimizer
from sparcl.options import NotNegative, Positive, declared_options, set_options

METHODS: dict[str, type["Method"]] = {}
COMPUTED_AT_ONCE = 32  # images
RECALIBRATION_IMAGES = 500  # for methods that keep no samples: so many of the current task


class GradientWatcher:
    """Whoever wants to see a step's gradients, or to change them before they are applied. This one does neither."""

    def dense_gradients(self) -> Mapping[str, NDArray[Any]] | None:
        """Arrays to which the next backward pass shall add the gradients of all positions of sparse weights."""
        return None

    def after_backward(self, samples: int, replayed: int) -> None:
        """A backward pass has added its gradients; `replayed` of its samples came from a buffer."""

    def before_update(self) -> None:
        """All gradients of the step are there and are about to be applied."""

    def extra_pass(self, samples: int, network: Network, backward: bool) -> None:
        """A method has sent so many samples through a network for another purpose than to learn from them."""


def _go_on() -> None:
    """Nobody asks for a stop."""


@dataclass(frozen=True)
class MethodContext:
    """What the loop hands to a method."""

    network: Network
    augmentation: Augmentation
    generators: Generators
    buffer_size: int
    replay_batch_size: int
    tasks: int = 1  # how many the stream has
    #: To be called in long work at a task's end, before anything is changed: it raises if the run shall stop.
    poll: Callable[[], None] = _go_on
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)


Scenario = Literal["class-il", "task-il", "domain-il"]
Family = Literal["bound", "regularisation", "rehearsal", "architecture", ""]


class Method(ABC):
    """Hyper-parameters are the annotated attributes of the class and its bases; the settings give their values."""

    learning_rate: Annotated[Positive, "of the optimizer; with adamw 0.001 by default"] = 0.03
    weight_decay: Annotated[NotNegative, "of the optimizer; with adamw 0.01 by default"] = 0.0
    single_head: Annotated[bool, "the loss on a batch knows only the classes of its task"] = False

    #: Hyper-parameters found best, by data set and buffer size; the nearest size given is taken.
    tuned: ClassVar[Mapping[str, Mapping[int, Mapping[str, float]]]] = {}
    #: What kind of method it is, and where it was published.
    family: ClassVar[Family] = ""
    reference: ClassVar[str] = ""
    #: Where it can be used: told nothing, told the task at the test, tasks that share their classes.
    scenarios: ClassVar[tuple[Scenario, ...]] = ("class-il", "task-il", "domain-il")
    #: Why no sparsifier can be put around it; empty if any can.
    sparsifier_conflict: ClassVar[str] = ""
    #: Replayed batches that one step learns from, to know the cost beforehand.
    replay_passes: ClassVar[int] = 0
    #: Forward passes of an old network over all that a step learns from, from the second task on.
    old_network_passes: ClassVar[int] = 0
    #: Passes over the task's samples when it ends: 1 for a forward, 3 with its backward.
    closing_passes: ClassVar[int] = 0
    #: True for a method that gets the data of all tasks at once.
    learns_all_tasks_at_once: ClassVar[bool] = False

    name: ClassVar[str] = ""

    def __init_subclass__(cls, name: str = "", **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if name:
            cls.name = name
            METHODS[name] = cls

    def __init__(self, context: MethodContext, hyperparameters: Mapping[str, Any]) -> None:
        set_options(self, hyperparameters)
        self.context = context
        self.network = context.network
        self.optimizer = self._new_optimizer()
        self.watcher = GradientWatcher()
        self.loss = 0.0  # of the current step, for display

    @abstractmethod
    def step(self, batch: Batch) -> Logits:
        """Learn from one batch. Returns the network's logits for the batch's samples, from before the update."""

    def begin_task(self, task: Task) -> None:
        """Called before the first step of a task."""
        self.optimizer = self._new_optimizer()

    def weights_moved(self) -> None:  # noqa: B027 (most methods keep nothing about single weights)
        """Called after a change of the active weights, before the next one."""

    def end_task(self, task: Task) -> None:  # noqa: B027 (most methods do nothing here)
        """Called after the last step of a task, before it is evaluated."""

    def descend(
        self, images: NDArray[np.float32], loss: Loss, train: bool = True, replayed: bool | int = False
    ) -> Logits:
        """One forward and backward pass; gradients add up until `update`.

        train: normalise with batch statistics. replayed: whether the images come from the buffer, or how many of them
        where new and replayed ones share a pass. Sparsifiers weigh the gradients of both kinds differently.
        """
        logits, context = self.network.forward(images, train=train)
        value, d_logits = loss(logits)
        self.network.backward(context, d_logits, self.watcher.dense_gradients())
        self.watcher.after_backward(len(images), len(images) if replayed is True else int(replayed))
        self.loss += value
        return logits

    def update(self, trainable: NDArray[np.bool_] | None = None) -> None:
        """One step of gradient descent; of all numbers, or only of those marked in a mask over the flat values."""
        self.watcher.before_update()
        self.optimizer.step(trainable)

    def compute(self, function: Callable[[Images], NDArray[Any]], samples: Samples) -> NDArray[Any]:
        """What the network gives (its `predict`, its `features`) for un-augmented samples."""
        parts = []
        for start in range(0, len(samples), COMPUTED_AT_ONCE):
            positions = samples.positions[start : start + COMPUTED_AT_ONCE]
            parts.append(function(self.context.augmentation.test(samples.images, positions)))
        return np.concatenate(parts)

    def classification_loss(self, batch: Batch) -> Loss:
        """Cross-entropy on the batch: over all classes, or with `single_head` over those of its task only."""
        return cross_entropy(batch.labels, batch.classes if self.single_head else None)

    def begin_evaluation(self, newest: Task | None) -> None:  # noqa: B027 (most methods do nothing here)
        """Called before predictions are asked for, at a task's end or during it; `newest` has been learned last."""

    def predict(self, images: Images, task: Task) -> Logits:
        """What the evaluation judges. Only a method for Task-IL alone may look at the task."""
        return self.network.predict(images)

    def recalibration_images(self, task: Task) -> NDArray[np.uint8]:
        """Un-augmented images from which batch statistics may be re-estimated while a task is learned."""
        return task.train.originals(slice(None, None, -(-len(task.train) // RECALIBRATION_IMAGES)))

    def state(self) -> dict[str, NDArray[Any]]:
        """Every array that a resumed run needs beside the network's own."""
        return {f"optimizer.{name}": slot for name, slot in self.optimizer.state().items()}

    def restore(self, state: dict[str, NDArray[Any]], task: int) -> None:
        """Continue in the middle of a task."""
        prefix = "optimizer."
        slots = {key.removeprefix(prefix): state[key] for key in state if key.startswith(prefix)}
        self.optimizer.restore(slots)

    def _new_optimizer(self) -> Optimizer:
        chosen, parameters = self.context.optimizer, self.network.parameters
        return make_optimizer(chosen, parameters, self.learning_rate, self.weight_decay)

    @classmethod
    def hyperparameters(cls) -> dict[str, tuple[Any, Any]]:
        """Name, type and default of every hyper-parameter."""
        return declared_options(cls)

    @classmethod
    def tuned_for(cls, dataset: str, buffer_size: int) -> dict[str, float]:
        by_size = cls.tuned.get(dataset, {})
        if not by_size:
            return {}
        return dict(by_size[min(by_size, key=lambda size: abs(size - buffer_size))])
