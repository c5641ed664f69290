"""Running a set of trials to its end: what is finished is not run again, what was broken off goes on."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from sparcl.experiments.launch import Ended
from sparcl.experiments.trial import Progress, Trial, is_finished, progress_of
from sparcl.learning.run_directory import RunDirectory

MOST_LOSSES = 3  # a trial whose process is killed again and again is given up
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
class Standing:
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
    def show(self, standings: Sequence[Standing], seconds_left: float | None) -> None: ...


def conduct(
    trials: Sequence[Trial], root: Path, pool: Pool, watcher: Watcher, clock: Callable[[], float] = time.monotonic
) -> list[Standing]:
    """Run all trials; Ctrl-C stops them, each with a checkpoint, and is passed on.

    A trial that fails does not hold up the others.
    """
    standings: dict[Path, Standing] = {}
    for trial in trials:  # equal settings are one trial
        directory = trial.directory(root)
        place: Place = "cached" if is_finished(directory) else "waiting"
        standings.setdefault(directory.path, Standing(trial, directory.path, place))
    everything = list(standings.values())
    outlook = Outlook(everything, clock)
    waiting = [standing for standing in everything if standing.place == "waiting"]
    running: dict[Path, Standing] = {}
    try:
        while waiting or running:
            while waiting and pool.has_room():
                standing = waiting.pop(0)
                pool.start(standing.trial, standing.directory)
                standing.place = "running"
                running[standing.directory] = standing
            for path, ended in pool.ended(LOOK_EVERY).items():
                if _settle(running.pop(path), ended):
                    waiting.insert(0, standings[path])
            for standing in running.values():
                standing.progress = progress_of(standing.trial.directory(root)) or standing.progress
            watcher.show(everything, outlook.seconds_left())
    except BaseException:
        pool.stop()
        raise
    finally:
        pool.close()
    watcher.show(everything, 0.0)
    return everything


def _settle(standing: Standing, ended: Ended) -> bool:
    """Whether it must be started once more."""
    if ended.state == "finished":
        standing.place, standing.message = "finished", ""
        result = RunDirectory(standing.directory).result() or {}
        averages = {kind: matrix["average"] for kind, matrix in result.items() if kind != "warnings"}
        standing.progress = Progress(accuracy={kind: one for kind, one in averages.items() if one is not None})
        return False
    standing.message = ended.message
    standing.losses += 1
    if ended.state == "failed" or standing.losses > MOST_LOSSES:
        standing.place = "failed"
        return False
    standing.place = "waiting"
    return True


class Outlook:
    """How long everything will take, judged by what has been done since the start."""

    def __init__(self, standings: Sequence[Standing], clock: Callable[[], float]) -> None:
        self._standings, self._clock, self._began = standings, clock, clock()
        self._before = {standing.directory: standing.share for standing in standings}

    def seconds_left(self) -> float | None:
        done = left = 0.0
        for standing in self._standings:
            if standing.place == "failed":
                continue
            told = standing.progress
            before = told.resumed_at / told.total if told.total else self._before[standing.directory]
            done += standing.trial.weight * max(0.0, standing.share - before)
            left += standing.trial.weight * (1 - standing.share)
        elapsed = self._clock() - self._began
        return left * elapsed / done if done and elapsed else None
