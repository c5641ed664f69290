"""Where a run stands: everything about the loop, beside arrays and generators, that a checkpoint must hold."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from sparcl.checked import Bounds, check

Count = Annotated[int, Bounds(ge=0)]
BoundedRow = list[Annotated[float, Bounds(ge=0, le=100)] | None]


@dataclass
class Position:
    task: Count = 0
    epoch: Count = 0
    step: Count = 0  # within the epoch
    total_steps: Count = 0  # since the run began
    begun: bool = False  # the task's begin_task has run
    ended: bool = False  # the task's end_task has run
    loss_sum: float = 0.0  # of the current epoch
    correct: Count = 0
    presented: Count = 0
    snapshots: list[dict[str, BoundedRow]] = field(default_factory=list)  # of the current task, each by kind

    def next_epoch(self) -> None:
        self.epoch, self.step = self.epoch + 1, 0
        self.loss_sum, self.correct, self.presented = 0.0, 0, 0

    def next_task(self) -> None:
        self.task, self.epoch, self.begun, self.ended, self.snapshots = self.task + 1, 0, False, False, []

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(content: Any) -> "Position":
        """Checked: raises ValueError for anything a position cannot be."""
        position = check(Position, content)
        if (position.step > 0) != (position.presented > 0) or (position.epoch + position.step and not position.begun):
            raise ValueError("the position contradicts itself")
        return position


class PhaseClock:
    """Seconds spent in each phase, added up over every part of a run that was interrupted."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def measure(self, phase: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[phase] = self.seconds.get(phase, 0.0) + time.perf_counter() - start
