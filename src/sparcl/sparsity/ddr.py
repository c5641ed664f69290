"""Dynamic data removal: samples that the network has stopped getting wrong leave the task's training set.

At the end of stages 1..cutoff a share rho/cutoff of the task's original samples is removed: those with the fewest
misclassifications in the stage, ties at random. The full set returns with the next task. The predictions are those of
the training forward, so counting costs nothing.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparcl.data import Task
from sparcl.methods import Batch
from sparcl.network import Logits

RemovalScore = Literal["misclassifications", "forgetting_events"]


@dataclass(frozen=True)
class RemovalSchedule:
    """How many samples are left, stage by stage: a run follows it, and its costs are planned with it."""

    rho: float
    cutoff: int
    one_shot: bool = False  # everything at the end of stage `cutoff` instead

    def remaining(self, original: int, finished_stages: int) -> int:
        done = min(finished_stages, self.cutoff) / self.cutoff
        if self.one_shot:
            done = float(int(done))  # nothing before the cutoff, everything at it
        return max(1, original - round(self.rho * done * original))


class DataRemoval:
    def __init__(self, schedule: RemovalSchedule, score: RemovalScore, generator: np.random.Generator) -> None:
        self._schedule, self._score, self._generator = schedule, score, generator
        self.present = np.zeros(0, bool)  # of the current task's samples
        self.mistakes = np.zeros(0, np.int32)
        self.was_right = np.zeros(0, bool)  # at its last presentation
        self.ever_right = np.zeros(0, bool)

    def begin_task(self, task: Task) -> None:
        count = len(task.train)
        self.present = np.ones(count, bool)
        self.mistakes = np.zeros(count, np.int32)
        self.was_right, self.ever_right = np.zeros(count, bool), np.zeros(count, bool)

    def samples(self) -> NDArray[np.int64]:
        return np.flatnonzero(self.present)

    def observe(self, batch: Batch, logits: Logits) -> None:
        """Judge each sample of a batch: over the classes seen so far, or over all outputs for forgetting events."""
        if self._score == "misclassifications":
            right = logits[:, : batch.classes.stop].argmax(axis=1) == batch.labels
            self.mistakes[batch.chosen] += ~right
        else:
            right = logits.argmax(axis=1) == batch.labels
            self.mistakes[batch.chosen] += self.was_right[batch.chosen] & ~right
        self.was_right[batch.chosen] = right
        self.ever_right[batch.chosen] |= right

    def end_stage(self, stages_done: int) -> int:
        """Remove what is due after so many stages; returns how many samples went."""
        here = self.samples()
        count = len(here) - self._schedule.remaining(len(self.present), stages_done)
        if count > 0:
            scores = self.mistakes[here].astype(np.float64)
            if self._score == "forgetting_events":
                scores[~self.ever_right[here]] = np.inf  # what was never learned is hardest of all
            else:
                # With drop_last a stage may leave samples out: without a mistake in it, but wrong when last seen.
                scores[(scores == 0) & ~self.was_right[here]] = np.inf
            easiest = np.lexsort((self._generator.random(len(here)), scores))[:count]
            self.present[here[easiest]] = False
        if self._score == "misclassifications":
            self.mistakes[:] = 0  # counted anew in each stage
        return max(count, 0)

    def state(self) -> dict[str, NDArray[Any]]:
        return {name: getattr(self, name) for name in ("present", "mistakes", "was_right", "ever_right")}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        for name in ("present", "mistakes", "was_right", "ever_right"):
            now, then = getattr(self, name), state[name]
            if then.dtype != now.dtype or then.ndim != 1 or len(then) != len(state["present"]):
                raise ValueError(f"{name} is not what it should be")
            setattr(self, name, then.copy())
