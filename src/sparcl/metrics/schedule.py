"""What a training will do, known before it runs: how many samples pass through which weights, stage by stage.

    task    1                        2                        ...
    stage   1    2    3  ...  N      1         2    3  ...  N
    weights s    s    s       s      s-growth  s    s       s        the mask is adjusted after a stage
    samples n    less less ...       n         less less ...         with data removal

Counting a plan gives the same numbers as counting the passes of the run one by one, but for what depends on the samples
themselves and is little (SNIP's single measure, the outputs that FDR stores), RigL's gradients of all positions, LwF's
warm-up, which does not ask the old network, and FDR's second update, which does not choose weights anew.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, Protocol

from sparcl.metrics.costs import CostCounter, NetworkCost
from sparcl.metrics.stretches import stretches

IMPORTANCE_SHARE = 100  # deciding about a stage's weights may take one pass for so many of its training passes


class Removal(Protocol):
    def remaining(self, original: int, finished_stages: int) -> int:
        """How many of a task's samples are left once this many of its stages have ended. It never rises."""


@dataclass(frozen=True)
class SparsePlan:
    """What a sparsifier will do. The defaults: a mask that stays as it is, all samples in every epoch."""

    sparsity: float = 0.0
    adjusts_mask: bool = False  # after every stage but the last
    grows: Literal["for_tasks", "in_stages"] = "for_tasks"  # the first stage of later tasks, or every one but the last
    growth: float = 0.01  # a stage that has grown is denser by this much
    importance_batches: int = 16  # for each term of the importance; see `capped_importance_batches`
    gradient_sparsity: float = 0.0  # the share of all weights that is active but not updated
    gradient_interval: int = 30  # iterations from one choice of the updated weights to the next
    removal: Removal | None = None
    stage_epochs: int = 5

    def __post_init__(self) -> None:
        if not 0 <= self.sparsity <= self.sparsity + self.gradient_sparsity <= 1:
            raise ValueError(f"sparsity {self.sparsity} and gradient sparsity {self.gradient_sparsity} exceed 1")

    def samples(self, original: int, finished_stages: int) -> int:
        return self.removal.remaining(original, finished_stages) if self.removal else original


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
    sparse: SparsePlan = SparsePlan()
    slots: int = 0  # numbers that the optimizer keeps for each weight

    def nominal(self) -> "TrainingPlan":
        """As the paper counts: every stage at the sparsity that the method is named after."""
        return replace(self, sparse=replace(self.sparse, growth=0.0))

    def steps(self) -> int:
        return sum(stage.repeats * stage.steps for stage in self.stages())

    def stages(self) -> Iterator["Stage"]:
        """In order. Equal ones come as one, so that a plan of any length is counted at once."""
        step, each = 0, self.sparse.stage_epochs
        count = -(-self.epochs // each)
        for task, samples in enumerate(self.samples):
            for same in stretches(count, partial(self.sparse.samples, samples)):
                number = same.start
                while number < same.stop:
                    stage = self._stage(task, samples, number, same.stop, step)
                    yield stage
                    number += stage.repeats * -(-stage.epochs // each)
                    step += stage.repeats * stage.steps

    def _stage(self, task: int, samples: int, number: int, stop: int, first_step: int) -> "Stage":
        """From a stage of a task on, those up to `stop` that are like it."""
        sparse, each = self.sparse, self.sparse.stage_epochs
        last = -(-self.epochs // each) - 1
        not_last = number != last
        grown = sparse.adjusts_mask and (not_last if sparse.grows == "in_stages" else task > 0 and number == 0)
        stage = Stage(
            plan=self,
            task=task,
            first_step=first_step,
            samples=sparse.samples(samples, number),
            epochs=min(each, self.epochs - number * each),
            sparsity=max(0.0, sparse.sparsity - sparse.growth) if grown else sparse.sparsity,
            # What was grown for a task is always taken back; the last stage grows nothing new.
            mask_adjusted=sparse.adjusts_mask and (grown or not_last),
        )
        if not sparse.adjusts_mask:  # a mask that stays as it is makes one stage of all of them
            return replace(stage, epochs=min(stop * each, self.epochs) - number * each)
        filled = first_step * self.batch >= self.replay_batch or not stage.steps
        like_the_next = number > 0 and not_last and filled
        return replace(stage, repeats=min(stop, last) - number) if like_the_next else stage


@dataclass(frozen=True)
class Stage:
    plan: TrainingPlan
    task: int
    first_step: int  # of the run
    samples: int  # in each epoch
    epochs: int
    sparsity: float
    mask_adjusted: bool  # at the end of the stage
    repeats: int = 1  # so many stages like this one follow each other

    @property
    def steps_per_epoch(self) -> int:
        return batches(self.samples, self.plan.batch, self.plan.drop_last)

    @property
    def presented(self) -> int:
        """In each epoch."""
        return min(self.samples, self.steps_per_epoch * self.plan.batch) if self.plan.drop_last else self.samples

    @property
    def steps(self) -> int:
        return self.epochs * self.steps_per_epoch

    @property
    def replay_passes(self) -> int:
        return self.plan.replay_passes if self.task + 1 >= self.plan.replay_from_task else 0

    @property
    def replayed(self) -> int:
        """Samples in one replayed batch of every step."""
        return self._replayed_in(range(self.steps))

    def _replayed_in(self, steps: range) -> int:
        """Samples in one replayed batch of each of these steps; the buffer is empty when the run begins, then fills."""
        plan = self.plan
        full_at = -(-plan.replay_batch // plan.batch) - self.first_step
        filling = steps[: len(range(steps.start, min(steps.stop, full_at), steps.step))]
        partly = plan.batch * (len(filling) * self.first_step + _sum(filling))
        return partly + (len(steps) - len(filling)) * plan.replay_batch

    def refresh_steps(self) -> range:
        """The steps that choose the updated weights again; a changed mask starts the interval again."""
        sparse = self.plan.sparse
        behind = 0 if sparse.adjusts_mask else -self.first_step % sparse.gradient_interval
        return range(behind, self.steps, sparse.gradient_interval)

    @property
    def refreshing(self) -> tuple[int, int]:
        """Samples in the current batches, and in one replayed batch, of each refreshing step."""
        steps, each = self.refresh_steps(), self.plan.batch
        in_last_batch = self.presented - (self.steps_per_epoch - 1) * each
        current = len(steps) * each + _hits(steps, self.steps_per_epoch) * (in_last_batch - each)
        return current, self._replayed_in(steps)

    def importance_batches(self) -> int:
        """Of each of the terms: the current task, and the buffer if there is one."""
        plan = self.plan
        # A replayed batch may be larger or smaller than one of the task's: passes are counted in the latter.
        current = plan.current_passes * self.epochs * self.presented
        passes = (current + self.replay_passes * self.replayed) // plan.batch
        terms = 2 if self.replay_passes else 1
        return capped_importance_batches(plan.sparse.importance_batches, passes, terms) if self.mask_adjusted else 0


def batches(samples: int, batch_size: int, drop_last: bool) -> int:
    """How many batches the samples make. A lone last sample joins the batch before it: batch statistics of a single
    sample mean nothing."""
    whole, rest = divmod(samples, batch_size)
    return whole if whole and (rest == 1 or drop_last) else whole + (rest > 0)


def capped_importance_batches(wanted: int, stage_passes: int, terms: int) -> int:
    """As many batches as wanted, as long as all terms together stay below 1% of the stage's passes; at least one."""
    return min(wanted, max(1, stage_passes // IMPORTANCE_SHARE // terms))


def _sum(numbers: range) -> int:
    return (numbers[0] + numbers[-1]) * len(numbers) // 2 if numbers else 0


def _hits(steps: range, period: int) -> int:
    """How many of the steps are the last of a period."""
    together = math.gcd(steps.step, period)
    if not steps or (period - 1 - steps.start) % together:
        return 0
    cycle = period // together  # one in so many steps; the first of them:
    first = (period - 1 - steps.start) // together * pow(steps.step // together, -1, cycle) % cycle
    return len(range(first, len(steps), cycle))


def count_plan(network: NetworkCost, plan: TrainingPlan) -> CostCounter:
    counter = CostCounter(network)
    for stage in plan.stages():
        active = network.kept(stage.sparsity)
        updated = network.kept(stage.sparsity + plan.sparse.gradient_sparsity)
        current, replayed = stage.epochs * stage.presented, stage.replayed
        refreshing_current, refreshing_replayed = stage.refreshing
        # The refreshing steps are counted apart from the others: they cost more.
        for replay, passes, samples, refreshing in (
            (False, stage.repeats * plan.current_passes, current, refreshing_current),
            (True, stage.repeats * stage.replay_passes, replayed, refreshing_replayed),
        ):
            counter.count_pass(passes * (samples - refreshing), active, updated, replay=replay)
            counter.count_pass(passes * refreshing, active, updated, replay=replay, refresh=True)
        batches = stage.repeats * stage.importance_batches()
        counter.count_importance_pass(batches * min(plan.batch, stage.samples), active)
        if stage.replay_passes:
            counter.count_importance_pass(batches * plan.replay_batch, active)
        if stage.task:
            seen = stage.repeats * (plan.current_passes * current + stage.replay_passes * replayed)
            counter.count_extra_pass(plan.old_network_passes * seen, active, backward=False)
    for samples in plan.samples:
        closing = samples if plan.closing_samples is None else min(samples, plan.closing_samples)
        backward = plan.closing_passes == 3
        times = 1 if backward else plan.closing_passes
        counter.count_extra_pass(times * closing, network.kept(plan.sparse.sparsity), backward)
    return counter
