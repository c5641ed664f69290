"""SparCL (Wang et al., 2022): task-aware dynamic masking + dynamic data removal + dynamic gradient masking.

Each of the three works alone or with the others, around any method. The defaults are the paper's. The preset `official`
follows the authors' released code where it differs from their paper: masks start from magnitudes, are adjusted at the
start of epochs with a growth of p_official that a last prune takes back, importance uses the gradient of the last
batch, samples are scored by forgetting events, gradients by their magnitude.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparcl.data import Task
from sparcl.errors import SparclError
from sparcl.methods import Batch
from sparcl.metrics.schedule import SparsePlan
from sparcl.network import Logits
from sparcl.options import AtLeastOne, NotNegative, Share
from sparcl.sparsity.ddr import DataRemoval, RemovalSchedule, RemovalScore
from sparcl.sparsity.dgm import GradientMasks, GradientScore
from sparcl.sparsity.layers import Layer, sparse_layers
from sparcl.sparsity.moment import Moment
from sparcl.sparsity.sparsifier import Implied, Sparsifier, SparsifierContext
from sparcl.sparsity.tdm import InitialMask, TaskAwareMasks

# The paper's gradient sparsities s+q are .80, .92 and .97.
PAPER_Q = {0.75: 0.05, 0.90: 0.02, 0.95: 0.02}


def gradient_share(sparsity: float, q: float | None) -> float:
    """The share q of a layer's weights that is active but not updated.

    If it was not chosen, it is the paper's for the nearest of its sparsities; beyond those, the same part of the active
    weights as at 0.95, or none of them would be updated.
    """
    if q is None:
        nearest = min(PAPER_Q, key=lambda known: abs(known - sparsity))
        return min(PAPER_Q[nearest], 0.4 * (1 - sparsity))
    if sparsity + q >= 1:
        raise SparclError(
            f"sparsifier.q={q} leaves no weight to be updated, for only {1 - sparsity:.3g} of them are there. "
            "Choose a smaller one, or sparsifier.dgm=false."
        )
    return q


Schedule = Literal["stage_end", "epoch_start"]

# What `preset=official` changes: options of the sparsifier, hyper-parameters of the method, settings of the run.
OFFICIAL_OPTIONS: Mapping[str, Any] = {
    "initial_mask": "magnitude",
    "schedule": "epoch_start",
    "removal_score": "forgetting_events",
    "gradient_score": "magnitude",
}
OFFICIAL_METHOD: Mapping[str, Any] = {"single_head": True, "replay_from_task": 2}
OFFICIAL_TUNED: Mapping[str, Mapping[str, Any]] = {"der": {"alpha": 0.1}, "derpp": {"alpha": 0.1}}
OFFICIAL_SETTINGS: Mapping[str, Any] = {"drop_last": True}


class SparCL(Sparsifier, name="sparcl"):
    open_ended = True
    leading_options = ("preset",)

    preset: Annotated[Literal["paper", "official"], "paper, or official: as in the authors' released code"] = "paper"
    tdm: Annotated[bool, "task-aware dynamic masking: the active weights move"] = True
    ddr: Annotated[bool, "dynamic data removal: samples that are never mistaken go"] = True
    dgm: Annotated[bool, "dynamic gradient masking: fewer weights are updated"] = True

    stage_epochs: Annotated[AtLeastOne, "epochs of a stage, at whose end masks and samples change"] = 5
    alpha: Annotated[NotNegative, "importance: weight of the gradient on the current task"] = 0.5
    beta: Annotated[NotNegative, "importance: weight of the gradient on the buffer"] = 1.0
    importance_batches: Annotated[AtLeastOne, "batches for each of these gradients; in all at most 1% of a stage"] = 16

    p_inter: Annotated[Share, "TDM: share of a layer's weights that joins for a new task's first stage"] = 0.01
    p_intra: Annotated[Share, "TDM: share that is exchanged at the end of a stage"] = 0.005
    p_official: Annotated[Share, "TDM: share that is exchanged by the official preset"] = 0.01
    initial_mask: Annotated[InitialMask, "TDM: the first weights are random, or of largest magnitude"] = "random"
    schedule: Annotated[Schedule, "TDM: weights are exchanged at stage_end, or at epoch_start"] = "stage_end"

    rho: Annotated[Share, "DDR: share of the samples that is removed in all"] = 0.3
    cutoff: Annotated[AtLeastOne, "DDR: stages after which samples are removed"] = 4
    one_shot: Annotated[bool, "DDR: all at once, after the cutoff stage"] = False
    removal_score: Annotated[RemovalScore, "DDR: easy samples have few (or forgetting_events)"] = "misclassifications"

    q: Annotated[Share | None, "DGM: share of a layer's weights without gradients; None: the paper's"] = None
    gradient_interval: Annotated[AtLeastOne, "DGM: steps between two choices of the updated weights"] = 30
    gradient_score: Annotated[GradientScore, "DGM: the choice goes by cgi, or by the gradient's magnitude"] = "cgi"
    gradient_average: Annotated[Share, "DGM: how much of the earlier scores stays"] = 0.0

    def __init__(self, context: SparsifierContext, options: Mapping[str, Any]) -> None:
        super().__init__(context, options)
        masks_gradients = self.dgm and gradient_share(context.sparsity, self.q) > 0
        if masks_gradients and not self.sparse_layers:
            # Gradient masks on dense weights: these are stored sparse with every position active.
            self.sparse_layers = sparse_layers(
                context.network.graph, 0.0, names=self.layers, frozen=self.parameters.frozen
            )
        self.masks = TaskAwareMasks(
            context,
            self.sparse_layers,
            alpha=self.alpha,
            beta=self.beta,
            p_inter=self.p_inter,
            p_intra=self.p_intra,
            importance_batches=self.importance_batches,
            initial_mask=self.initial_mask,
        )
        self.moves = self.tdm and any(layer.sparsity > 0 for layer in self.sparse_layers)
        self.stage_length = self.stage_epochs  # in epochs; shorter in a task that has little time
        self.removal_schedule = RemovalSchedule(self.rho if self.ddr else 0.0, self.cutoff, self.one_shot)
        self.removal = DataRemoval(self.removal_schedule, self.removal_score, context.generators["removal"])
        self.gradient_masks = None
        if masks_gradients:
            self.gradient_masks = GradientMasks(
                self.parameters,
                self.sparse_layers,
                masked={layer.name: self._masked(layer) for layer in self.sparse_layers},
                interval=self.gradient_interval,
                alpha=self.alpha,
                beta=self.beta,
                score=self.gradient_score,
                average=self.gradient_average,
            )
        self.presented = 0  # samples of all passes since the stage began
        self.last_gradients: dict[str, NDArray[Any]] = {}  # of the last step, for the official importance

    # Hooks

    def begin_run(self) -> None:
        self.masks.begin_run()

    def begin_task(self, moment: Moment, task: Task) -> None:
        self.removal.begin_task(task)
        self.presented = 0
        if not self.moves:
            return
        if self.schedule == "stage_end":
            self._record(self.masks.begin_later_task() if moment.task > 0 else None)
        elif self.context.epochs > self.stage_length:
            self._expand_officially()

    def begin_step(self, moment: Moment) -> None:
        if self.gradient_masks is not None:
            self.gradient_masks.begin_step()

    def after_backward(self, samples: int, replayed: int) -> None:
        self.presented += samples
        if self.gradient_masks is not None:
            self.gradient_masks.after_backward(only_replayed=replayed == samples)

    def before_update(self) -> None:
        if self.moves and self.schedule == "epoch_start":
            gradients = self.parameters.gradients
            self.last_gradients = {layer.name: gradients[layer.name].copy() for layer in self.sparse_layers}
        if self.gradient_masks is not None:
            self.gradient_masks.before_update()

    def end_step(self, moment: Moment, batch: Batch, logits: Logits) -> None:
        self.removal.observe(batch, logits)

    def end_epoch(self, moment: Moment, task: Task) -> None:
        if not moment.ends_stage(self.stage_length):
            return
        stage, stages = moment.stage(self.stage_length), moment.stages(self.stage_length)
        last = stage == stages - 1
        if self.moves and self.schedule == "stage_end":
            present = task.train.select(self.removal.samples())
            expanded = stage == 0 and moment.task > 0
            passes = self.presented // self.context.batch_size
            self._record(self.masks.end_stage(task, present, expanded, last, passes))
        elif self.moves and self._has_grown_officially():
            self._record(self.masks.shrink_back(self._official_importance()))
            self.last_gradients = {}
            if stage + 1 < stages - 1:
                self._expand_officially()
        if not last:
            removed = self.removal.end_stage(stage + 1)
            if removed:
                self._record({"removed_samples": removed, "samples": len(self.removal.samples())})
        self.presented = 0

    def gradient_counts(self) -> dict[str, int]:
        return self.gradient_masks.counts() if self.gradient_masks is not None else {}

    def refreshes_gradients(self) -> bool:
        return self.gradient_masks is not None and self.gradient_masks.refreshing

    def samples(self, task: Task) -> NDArray[np.int64]:
        return self.removal.samples()

    def samples_in_epoch(self, task: Task, epoch: int) -> int:
        return self.removal_schedule.remaining(len(task.train), epoch // self.stage_length)

    def replan(self, epochs: int) -> None:
        """As many stages as there would be: masks move and samples leave at the same points of the task."""
        self.stage_length = max(1, round(self.stage_epochs * epochs / self.context.epochs))

    @classmethod
    def cost_plan(cls, sparsity: float, options: Mapping[str, Any]) -> SparsePlan:
        removal = RemovalSchedule(options["rho"], options["cutoff"], options["one_shot"]) if options["ddr"] else None
        official = options["schedule"] == "epoch_start"
        return SparsePlan(
            sparsity=sparsity,
            adjusts_mask=options["tdm"] and sparsity > 0,
            grows="in_stages" if official else "for_tasks",
            growth=options["p_official"] if official else options["p_inter"],
            # The official importance is the gradient of the last batch, which is there anyway.
            importance_batches=0 if official else options["importance_batches"],
            gradient_sparsity=gradient_share(sparsity, options["q"]) if options["dgm"] else 0.0,
            gradient_interval=options["gradient_interval"],
            removal=removal,
            stage_epochs=options["stage_epochs"],
        )

    @classmethod
    def implied(cls, given: Mapping[str, Any], method: str) -> Implied:
        if given.get("preset") != "official":
            return Implied()
        return Implied(OFFICIAL_OPTIONS, {**OFFICIAL_METHOD, **OFFICIAL_TUNED.get(method, {})}, OFFICIAL_SETTINGS)

    # Inside

    def _masked(self, layer: Layer) -> int:
        """How many weights of a layer get no gradients. In small and very sparse layers rounding must leave some."""
        if self.q is None:
            return min(layer.share(gradient_share(layer.sparsity, None)), max(0, layer.active() - 1))
        if 0 < layer.active() <= layer.share(self.q):
            raise SparclError(
                f"sparsifier.q={self.q:g} leaves no weight of {layer.name} to be updated: {layer.active()} of "
                f"{layer.size} are there. Choose a smaller one."
            )
        return layer.share(self.q)

    def _expand_officially(self) -> None:
        self._record(self.masks.expand(-self.p_official))
        self.last_gradients = {}  # they are those of other weights

    def _has_grown_officially(self) -> bool:
        """Not so in a last stage, unless it became the last because time ran out."""
        return any(len(self.parameters.index[layer.name]) > layer.active() for layer in self.sparse_layers)

    def _official_importance(self) -> dict[str, NDArray[Any]]:
        values = self.parameters.values
        return {name: np.abs(values[name]) + self.alpha * np.abs(self.last_gradients[name]) for name in self.names()}

    def names(self) -> list[str]:
        return [layer.name for layer in self.sparse_layers]

    def _record(self, record: dict[str, Any] | None) -> None:
        if record is not None:
            self.records.append(record)

    def state(self) -> dict[str, NDArray[Any]]:
        arrays: dict[str, NDArray[Any]] = {
            "counts": np.array([self.presented, self.masks.adjustments]),
            "stage_length": np.array([self.stage_length]),
        }
        arrays |= {f"born.{name}": born for name, born in self.masks.born.items()}
        arrays |= {f"removal.{name}": array for name, array in self.removal.state().items()}
        arrays |= {f"last_gradient.{name}": array for name, array in self.last_gradients.items()}
        if self.gradient_masks is not None:
            arrays |= {f"gradients.{name}": array for name, array in self.gradient_masks.state().items()}
        return arrays

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        def part(prefix: str) -> dict[str, NDArray[Any]]:
            return {key.removeprefix(prefix): state[key] for key in state if key.startswith(prefix)}

        if "passes" in state:
            state = _of_first_format(state, self.context.batch_size)
        counts = state["counts"]
        if counts.dtype != np.int64 or counts.shape != (2,) or (counts < 0).any():
            raise ValueError("what was counted of the stage makes no sense")
        self.presented, self.masks.adjustments = counts.tolist()
        length = state.get("stage_length", np.array([self.stage_epochs]))  # version 0.1.0 has none of its own
        if length.dtype != np.int64 or length.shape != (1,) or not 1 <= length[0] <= self.stage_epochs:
            raise ValueError("the length of a stage makes no sense")
        self.stage_length = int(length[0])
        self.masks.born = part("born.")
        self.last_gradients = part("last_gradient.")
        for arrays in (self.masks.born, self.last_gradients):
            if any(len(array) != len(self.parameters.index[name]) for name, array in arrays.items()):
                raise ValueError("what is known of the weights does not fit them")
        self.removal.restore(part("removal."))
        if self.gradient_masks is not None:
            self.gradient_masks.restore(part("gradients."))


def _of_first_format(state: dict[str, NDArray[Any]], batch_size: int) -> dict[str, NDArray[Any]]:
    """Version 0.1.0 counted passes instead of samples, and the adjustments at which weights were grown from 0."""
    passes = state["passes"]
    if passes.dtype != np.float64 or passes.shape != (2,) or not (np.isfinite(passes) & (passes >= 0)).all():
        raise ValueError("what was counted of the stage makes no sense")
    counts = np.array([round(float(passes[0]) * batch_size), int(passes[1])])
    born = {key: array + np.int16(1) for key, array in state.items() if key.startswith("born.")}
    return {**state, **born, "counts": counts}
