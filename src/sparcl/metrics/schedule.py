"""What a training will do, known before it runs: how many samples pass through which weights, stage by stage.

    task    1                        2                        ...
    stage   1    2    3  ...  N      1         2    3  ...  N
    weights s    s    s       s      s-growth  s    s       s        the mask is adjusted after a stage
    samples n    less less ...       n         less less ...         with data removal

Counting a plan gives the same numbers as counting the passes of the run one by one, but for what depends on the samples
themselves and is little (SNIP's single measure, the outputs that FDR stores), RigL's gradients of all positions, LwF's
warm-up, which does not ask the old network, and FDR's second update, which does not choose weights anew.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from sparcl.metrics.costs import CostCounter, NetworkCost

IMPORTANCE_SHARE = 100  # deciding about a stage's weights may take one pass for so many of its training passes


@dataclass(frozen=True)
class DataRemoval:
    """DDR: the share of a task's samples that goes, in equal parts at the ends of stages 1 to cutoff."""

    share: float
    cutoff: int
    one_shot: bool = False  # everything at the end of stage `cutoff` instead

    def remaining(self, samples: int, finished_stages: int) -> int:
        parts = min(finished_stages, self.cutoff)
        if self.one_shot:
            parts = self.cutoff * (finished_stages >= self.cutoff)
        return samples - round(samples * self.share * parts / self.cutoff)


@dataclass(frozen=True)
class TrainingPlan:
    samples: tuple[int, ...]  # training samples of each task
    epochs: int  # of each task
    batch: int
    replay_batch: int = 0
    current_passes: int = 1  # of the current batch in one step
    replay_passes: int = 0  # replayed batches in one step
    replay_from_task: int = 1  # the first task that rehearses, counted from 1
    old_network_passes: int = 0  # forward passes of an old network over all samples of a step, from the second task on
    closing_passes: int = 0  # over a task's samples when it ends: 1 for a forward, 3 with its backward
    closing_samples: int | None = None  # at most so many of them
    drop_last: bool = False  # a last batch that is not full is left out
    sparsity: float = 0.0
    adjusts_mask: bool = False  # TDM: after every stage but the last; otherwise the mask stays as it is
    grows: Literal["for_tasks", "in_stages"] = "for_tasks"  # the first stage of later tasks, or every one but the last
    growth: float = 0.01  # so much denser is a stage that has grown
    importance_batches: int = 16  # for each term of the importance; see `capped_importance_batches`
    gradient_sparsity: float = 0.0  # q of DGM: the share of all weights that is active but not updated
    gradient_interval: int = 30  # iterations from one choice of the updated weights to the next
    removal: DataRemoval | None = None
    stage_epochs: int = 5

    def __post_init__(self) -> None:
        if not 0 <= self.sparsity <= self.sparsity + self.gradient_sparsity <= 1:
            raise ValueError(f"sparsity {self.sparsity} and gradient sparsity {self.gradient_sparsity} exceed 1")

    def nominal(self) -> "TrainingPlan":
        """As the paper counts: every stage at the sparsity that the method is named after."""
        return replace(self, growth=0.0)

    def stages(self) -> Iterator["Stage"]:
        step = 0
        numbers = range(-(-self.epochs // self.stage_epochs))
        for task, samples in enumerate(self.samples):
            for number in numbers:
                not_last = number != numbers[-1]
                grown = self.adjusts_mask and (not_last if self.grows == "in_stages" else task > 0 and number == 0)
                stage = Stage(
                    plan=self,
                    task=task,
                    first_step=step,
                    samples=self.removal.remaining(samples, number) if self.removal else samples,
                    epochs=min(self.stage_epochs, self.epochs - number * self.stage_epochs),
                    sparsity=max(0.0, self.sparsity - self.growth) if grown else self.sparsity,
                    # What was grown for a task is always taken back; the last stage grows nothing new.
                    mask_adjusted=self.adjusts_mask and (grown or not_last),
                )
                yield stage
                step += stage.steps


@dataclass(frozen=True)
class Stage:
    plan: TrainingPlan
    task: int
    first_step: int  # of the run
    samples: int  # in each epoch
    epochs: int
    sparsity: float
    mask_adjusted: bool  # at the end of the stage

    @property
    def steps_per_epoch(self) -> int:
        """A lone last sample joins the batch before it."""
        whole, rest = divmod(self.samples, self.plan.batch)
        return whole if whole and (rest == 1 or self.plan.drop_last) else whole + (rest > 0)

    @property
    def presented(self) -> int:
        """In each epoch."""
        return min(self.samples, self.steps_per_epoch * self.plan.batch) if self.plan.drop_last else self.samples

    @property
    def steps(self) -> int:
        return self.epochs * self.steps_per_epoch

    def batch_at(self, step: int) -> int:
        """Samples in the batch of a step of this stage; the last one of an epoch has what is left."""
        place = step % self.steps_per_epoch
        left = self.presented - place * self.plan.batch
        return left if place == self.steps_per_epoch - 1 else self.plan.batch

    @property
    def replay_passes(self) -> int:
        return self.plan.replay_passes if self.task + 1 >= self.plan.replay_from_task else 0

    def replay_at(self, step: int) -> int:
        """Samples in each replayed batch; the buffer is empty at the first step of the run and then fills."""
        return min(self.plan.replay_batch, (self.first_step + step) * self.plan.batch)

    @property
    def replayed(self) -> int:
        """Samples in one replayed batch of every step."""
        plan = self.plan
        filling = range(min(self.steps, max(0, -(-plan.replay_batch // plan.batch) - self.first_step)))
        return (self.steps - len(filling)) * plan.replay_batch + sum(map(self.replay_at, filling))

    def refresh_steps(self) -> range:
        """The steps that choose the updated weights anew; a changed mask starts the interval again."""
        behind = 0 if self.plan.adjusts_mask else -self.first_step % self.plan.gradient_interval
        return range(behind, self.steps, self.plan.gradient_interval)

    def importance_batches(self) -> int:
        """Of each of the terms: the current task, and the buffer if there is one."""
        plan = self.plan
        # A replayed batch may be larger or smaller than one of the task's: passes are counted in the latter.
        current = plan.current_passes * self.epochs * self.presented
        passes = (current + self.replay_passes * self.replayed) // plan.batch
        terms = 2 if self.replay_passes else 1
        return capped_importance_batches(plan.importance_batches, passes, terms) if self.mask_adjusted else 0


def capped_importance_batches(wanted: int, stage_passes: int, terms: int) -> int:
    """As many batches as wanted, as long as all terms together stay below 1% of the stage's passes; at least one."""
    return min(wanted, max(1, stage_passes // IMPORTANCE_SHARE // terms))


def count_plan(network: NetworkCost, plan: TrainingPlan) -> CostCounter:
    counter = CostCounter(network)
    for stage in plan.stages():
        active = network.kept(stage.sparsity)
        updated = network.kept(stage.sparsity + plan.gradient_sparsity)
        refresh_steps = stage.refresh_steps()
        current = stage.epochs * stage.presented
        # The refreshing steps are counted apart from the others: they cost more.
        for replay, passes, samples, sizes in (
            (False, plan.current_passes, current, map(stage.batch_at, refresh_steps)),
            (True, stage.replay_passes, stage.replayed, map(stage.replay_at, refresh_steps)),
        ):
            refreshing = sum(sizes)
            counter.count_pass(passes * (samples - refreshing), active, updated, replay=replay)
            counter.count_pass(passes * refreshing, active, updated, replay=replay, refresh=True)
        batches = stage.importance_batches()
        counter.count_importance_pass(batches * min(plan.batch, stage.samples), active)
        if stage.replay_passes:
            counter.count_importance_pass(batches * plan.replay_batch, active)
        if stage.task:
            seen = plan.current_passes * current + stage.replay_passes * stage.replayed
            counter.count_extra_pass(plan.old_network_passes * seen, active, backward=False)
    for samples in plan.samples:
        closing = samples if plan.closing_samples is None else min(samples, plan.closing_samples)
        counter.count_extra_pass(plan.closing_passes * closing, network.kept(plan.sparsity), backward=False)
    return counter
