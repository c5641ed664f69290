"""Running a set of trials to its end: what is finished is not run again, what was broken off goes on."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from sparcl.experiments.launch import Ended
from sparcl.experiments.trial import Progress, Trial, progress_of
from sparcl.learning.run_directory import RunDirectory

MAX_LOSSES = 3  # a trial whose process is killed again and again is given up
LOOK_EVERY = 0.5  # seconds

Place = Literal["waiting", "running", "finished", "cached", "failed"]


class Pool(Protocol):
    """Where trials run."""

    def has_room(self) -> bool: ...
    def start(self, trial: Trial, directory: Path) -> None: ...
    def ended(self, seconds: float) -> dict[Path, Ended]: ...
    def stop(self) -> None: ...
    def close(self) -> None: ...


@dataclass
class TrialStatus:
    """How a trial stands."""

    trial: Trial
    directory: Path
    place: Place = "waiting"
    progress: Progress = field(default_factory=Progress)  # of a running one
    message: str = ""
    losses: int = 0

    @property
    def share(self) -> float:
        if self.place in ("finished", "cached"):
            return 1.0
        return min(1.0, self.progress.done / self.progress.total) if self.progress.total else 0.0


class Watcher(Protocol):
    def show(self, statuses: Sequence[TrialStatus], seconds_left: float | None) -> None: ...


def run_trials(
    trials: Sequence[Trial], root: Path, pool: Pool, watcher: Watcher, clock: Callable[[], float] = time.monotonic
) -> list[TrialStatus]:
    """Run all trials; Ctrl-C stops them, each with a checkpoint, and is passed on.

    A trial that fails does not hold up the others.
    """
    statuses: dict[Path, TrialStatus] = {}
    for trial in trials:  # equal settings are one trial
        directory = trial.directory(root)
        place: Place = "cached" if directory.is_finished() else "waiting"
        statuses.setdefault(directory.path, TrialStatus(trial, directory.path, place))
    everything = list(statuses.values())
    eta = Eta(everything, clock)
    waiting = [status for status in everything if status.place == "waiting"]
    running: dict[Path, TrialStatus] = {}
    try:
        while waiting or running:
            while waiting and pool.has_room():
                status = waiting.pop(0)
                pool.start(status.trial, status.directory)
                status.place = "running"
                running[status.directory] = status
            for path, ended in pool.ended(LOOK_EVERY).items():
                if _settle(running.pop(path), ended):
                    waiting.insert(0, statuses[path])
            for status in running.values():
                status.progress = progress_of(status.trial.directory(root)) or status.progress
            watcher.show(everything, eta.seconds_left())
    except BaseException:
        pool.stop()
        raise
    finally:
        pool.close()
    watcher.show(everything, 0.0)
    return everything


def _settle(status: TrialStatus, ended: Ended) -> bool:
    """Whether it must be started once more."""
    if ended.state == "finished":
        status.place, status.message = "finished", ""
        result = RunDirectory(status.directory).result() or {}
        averages = {kind: matrix["average"] for kind, matrix in result.items() if kind != "warnings"}
        status.progress = Progress(accuracy={kind: one for kind, one in averages.items() if one is not None})
        return False
    status.message = ended.message
    status.losses += 1
    if ended.state == "failed" or status.losses > MAX_LOSSES:
        status.place = "failed"
        return False
    status.place = "waiting"
    return True


class Eta:
    """How long everything will take, judged by what has been done since the start."""

    def __init__(self, statuses: Sequence[TrialStatus], clock: Callable[[], float]) -> None:
        self._statuses, self._clock, self._began = statuses, clock, clock()
        self._before = {status.directory: status.share for status in statuses}

    def seconds_left(self) -> float | None:
        done = left = 0.0
        for status in self._statuses:
            if status.place == "failed":
                continue
            told = status.progress
            before = told.resumed_at / told.total if told.total else self._before[status.directory]
            done += status.trial.weight * max(0.0, status.share - before)
            left += status.trial.weight * (1 - status.share)
        elapsed = self._clock() - self._began
        return left * elapsed / done if done and elapsed else None
