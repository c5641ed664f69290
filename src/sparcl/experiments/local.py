"""Trials on this machine: so many processes at once, each on cores of its own."""

import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

from sparcl.checked import plain
from sparcl.errors import SparclError
from sparcl.experiments.launch import Ended, TrialRequest, WorkerProcess
from sparcl.experiments.trial import Trial

SECONDS_TO_SAVE = 120.0


class LocalPool:
    def __init__(self, jobs: int, threads: int, plugins: Sequence[Path] = ()) -> None:
        cores = sorted(os.sched_getaffinity(0))
        self.jobs = jobs or max(1, len(cores) // threads)
        self._threads, self._plugins = threads, [path.resolve() for path in plugins]
        # Pinned only where everybody gets cores that nobody else has.
        fits = self.jobs * threads <= len(cores)
        self._places = [cores[job * threads : (job + 1) * threads] if fits else [] for job in range(self.jobs)]
        self._running: dict[Path, tuple[WorkerProcess, list[int]]] = {}

    def has_room(self) -> bool:
        return bool(self._places)

    def start(self, trial: Trial, directory: Path) -> None:
        cpus = self._places.pop()
        request = TrialRequest(directory.resolve(), plain(trial.settings), self._threads, self._plugins, cpus)
        try:
            self._running[directory] = WorkerProcess(request.to_json(), self._threads), cpus
        except OSError as error:
            raise SparclError(f"No process could be started for {directory}: {error.strerror}.") from error

    def ended(self, seconds: float) -> dict[Path, Ended]:
        """Those that have ended, after waiting for so long at most."""
        deadline = time.monotonic() + seconds
        while True:
            done = {path: ended for path, (process, _) in self._running.items() if (ended := process.ended())}
            if done or time.monotonic() >= deadline:
                break
            time.sleep(0.05)
        for path in done:
            self._places.append(self._running.pop(path)[1])
        return done

    def stop(self) -> None:
        """Every trial saves and ends; who takes too long is killed, and goes on from an older checkpoint."""
        processes = [process for process, _ in self._running.values()]
        for process in processes:
            process.stop()
        deadline = time.monotonic() + SECONDS_TO_SAVE
        with contextlib.ExitStack() as stack:
            for process in processes:
                stack.callback(process.kill)  # also if Ctrl-C is pressed once more
            for process in processes:
                process.wait(max(0.0, deadline - time.monotonic()))

    def close(self) -> None: ...
