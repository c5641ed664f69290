"""Where a run stands: everything about the loop, beside arrays and generators, that a checkpoint must hold."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Position:
    task: int = 0
    epoch: int = 0
    step: int = 0  # within the epoch
    total_steps: int = 0  # since the run began
    begun: bool = False  # the task's begin_task has run
    loss_sum: float = 0.0  # of the current epoch
    correct: int = 0
    presented: int = 0
    snapshots: list[tuple[list[float], list[float]]] = field(default_factory=list)  # of the current task

    def next_epoch(self) -> None:
        self.epoch, self.step = self.epoch + 1, 0
        self.loss_sum, self.correct, self.presented = 0.0, 0, 0

    def next_task(self) -> None:
        self.task, self.epoch, self.begun, self.snapshots = self.task + 1, 0, False, []

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


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
