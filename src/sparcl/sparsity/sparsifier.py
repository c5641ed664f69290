"""What every sparsifier is made of: hooks that the loop calls, in this order.

    begin_run
    for each task:      begin_task
        for each epoch:     samples (which of the task's samples are presented)
            for each step:      begin_step, after_backward (each pass), before_update, end_step
                            end_epoch

A sparsifier changes only which weights are active (`parameters.set_index`), which of them are updated
(`parameters.updated`), and which samples are presented. The method does not know about it.

It also plans: `samples_in_epoch` says how many samples each epoch will present, `replan` is told when a task gets fewer
epochs than it should because time is short, `cost_plan` says what a whole training will compute, and `implied` which
settings of others go with its own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparcl.data import Task
from sparcl.generators import Generators
from sparcl.methods import Batch, Method
from sparcl.methods.method import GradientWatcher
from sparcl.metrics.schedule import SparsePlan
from sparcl.network import Logits, Network
from sparcl.options import Share, declared_options, set_options
from sparcl.sparsity.layers import Distribution, Layer, sparse_layers
from sparcl.sparsity.moment import Moment

SPARSIFIERS: dict[str, type["Sparsifier"]] = {}


@dataclass(frozen=True)
class SparsifierContext:
    """What the loop hands to a sparsifier."""

    network: Network
    method: Method
    generators: Generators
    sparsity: float
    batch_size: int
    epochs: int  # of each task
    total_steps: int  # of the whole run, if no samples are removed
    count_importance: Callable[[int], None] = lambda samples: None  # told of every pass that is not training


@dataclass(frozen=True)
class Implied:
    """What some options of a sparsifier set besides themselves. Whatever the user sets comes first."""

    options: Mapping[str, Any] = field(default_factory=dict)  # of the sparsifier itself
    method: Mapping[str, Any] = field(default_factory=dict)  # hyper-parameters of the method
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the run


class Sparsifier(GradientWatcher):
    """Does nothing: training is dense. Options are the annotated attributes; the settings give their values."""

    distribution: Annotated[Distribution, "uniform, or erk: by the Erdős-Rényi kernel rule"] = "uniform"
    layers: Annotated[list[str], "names of the sparse layers; empty: all convolutions but the first and 1x1"] = []  # noqa: RUF012 (a default that is never changed)
    layer_sparsity: Annotated[dict[str, Share], "the sparsity of single layers, by name"] = {}  # noqa: RUF012

    #: Options from which others follow (see `implied`): tables name them, and not what follows.
    leading_options: ClassVar[tuple[str, ...]] = ()
    #: Whether it can go on for ever: a learner does not know how many tasks will come, nor how long they are.
    open_ended: ClassVar[bool] = False
    name: ClassVar[str] = ""

    def __init_subclass__(cls, name: str = "", **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if name:
            cls.name = name
            SPARSIFIERS[name] = cls

    def __init__(self, context: SparsifierContext, options: Mapping[str, Any]) -> None:
        set_options(self, options)
        self.context = context
        self.parameters = context.network.parameters
        self.sparse_layers: list[Layer] = []
        if context.sparsity > 0 or self.layer_sparsity:
            self.sparse_layers = sparse_layers(
                context.network.graph,
                context.sparsity,
                self.distribution,
                self.layers,
                self.layer_sparsity,
                self.parameters.frozen,
            )

        self.records: list[dict[str, Any]] = []  # what happened since the loop last looked, for the metrics

    def gradient_counts(self) -> dict[str, int]:
        """How many weights of a sparse layer an ordinary step updates, for the layers where that is not all."""
        return {}

    def refreshes_gradients(self) -> bool:
        """Whether the current step needs the gradients of all active weights, to choose which are updated."""
        return False

    def densities(self) -> dict[str, float]:
        """Shares of the sparse layers' weights that are active, and that are updated."""
        size = sum(layer.size for layer in self.sparse_layers)
        if not size:
            return {}
        active = {layer.name: len(self.parameters.index[layer.name]) for layer in self.sparse_layers}
        updated = {**active, **self.gradient_counts()}
        return {"density": sum(active.values()) / size, "gradient_density": sum(updated.values()) / size}

    def begin_run(self) -> None: ...
    def begin_task(self, moment: Moment, task: Task) -> None: ...
    def begin_step(self, moment: Moment) -> None: ...
    def end_step(self, moment: Moment, batch: Batch, logits: Logits) -> None: ...
    def end_epoch(self, moment: Moment, task: Task) -> None: ...

    def samples(self, task: Task) -> NDArray[np.int64]:
        """Which of the task's training samples the next epoch presents."""
        return np.arange(len(task.train))

    def samples_in_epoch(self, task: Task, epoch: int) -> int:
        """How many samples an epoch presents; known beforehand, so that progress and snapshots can be planned."""
        return len(task.train)

    def replan(self, epochs: int) -> None:
        """The task at hand gets this many epochs instead of `context.epochs`: what is due at some point of a task
        moves with it."""

    def state(self) -> dict[str, NDArray[Any]]:
        """Every array that a resumed run needs beside the network's own."""
        return {}

    def restore(self, state: dict[str, NDArray[Any]]) -> None: ...

    @classmethod
    def cost_plan(cls, sparsity: float, options: Mapping[str, Any]) -> SparsePlan:
        """What training with these options will compute. This one's mask stays as it is."""
        return SparsePlan(sparsity=sparsity)

    @classmethod
    def implied(cls, given: Mapping[str, Any], method: str) -> Implied:
        """What the options that the user has given imply for everything else, with this method."""
        return Implied()

    @classmethod
    def options(cls) -> dict[str, tuple[Any, Any]]:
        """Name, type and default of every option."""
        return declared_options(cls)


class Dense(Sparsifier, name="none"):
    """Dense training."""

    open_ended = True
