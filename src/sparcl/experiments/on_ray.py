"""Trials as tasks of Ray, on this machine or on a cluster: one trial is one task, with the cores and memory it needs.

A task starts the same process as a local trial and waits for it. When a task's machine or worker is lost, its trial is
started as a new task, elsewhere if need be, and goes on from its checkpoint: trials lie in a directory that all
machines share. Ray's own retries are off, so that there is one rule for how often.
"""

import contextlib
import io
import os
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from sparcl.checked import plain
from sparcl.errors import SparclError
from sparcl.experiments.launch import Ended, TrialRequest, WorkerProcess
from sparcl.experiments.local import SECONDS_TO_SAVE
from sparcl.experiments.memory import demand_mb
from sparcl.experiments.trial import Trial

NEEDS_RAY = 'This needs Ray, which is not installed. Install it with: pip install "sparcl-edge[sweep]"'
# Ray sends usage statistics, and warns about what it will change: neither is wanted here.
ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}


def import_ray() -> ModuleType:
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError as error:
        raise SparclError(NEEDS_RAY) from error
    return ray  # type: ignore[no-any-return]


def connect(address: str | None, cores: int) -> ModuleType:
    """Use the cluster at the address; without one, start Ray here, for as long as this process lives."""
    ray = import_ray()
    quiet = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": True}
    try:
        if address is None:
            ray.init(address="local", num_cpus=cores, include_dashboard=False, **quiet)
        else:
            ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise SparclError(f"Ray could not be reached at {address or 'this machine'}: {reason}") from error
    return ray


def run_request(request_json: str, threads: int) -> tuple[str, str]:
    """The task: the trial's process, from its start to its end. Cancelled, it lets the trial save."""
    process = WorkerProcess(request_json, threads)
    try:
        while (ended := process.ended()) is None:
            process.wait(0.2)  # short, because Ray can only interrupt between two waits
        return ended.state, ended.message
    finally:
        process.stop()
        process.wait(SECONDS_TO_SAVE)


class RayPool:
    def __init__(
        self, jobs: int, threads: int, address: str | None = None, memory_mb: int = 0, plugins: Sequence[Path] = ()
    ) -> None:
        cores = jobs * threads if jobs else max(threads, len(os.sched_getaffinity(0)))
        self._ray = connect(address, cores)
        # Ray tells of every lost worker on standard output, which is for results; the display tells it too.
        self._silence = contextlib.redirect_stdout(io.StringIO())
        self._silence.__enter__()
        self._most = jobs or 10_000  # Ray itself holds back what has no room yet
        self._threads, self._memory_mb = threads, memory_mb
        self._plugins = [path.resolve() for path in plugins]
        self._running: dict[Any, Path] = {}

    def has_room(self) -> bool:
        return len(self._running) < self._most

    def start(self, trial: Trial, directory: Path) -> None:
        request = TrialRequest(directory.resolve(), plain(trial.settings), self._threads, self._plugins)
        memory = (self._memory_mb or demand_mb(trial.settings)) * 10**6
        self._check({"CPU": self._threads, "memory": memory})
        task = self._ray.remote(num_cpus=self._threads, memory=memory, max_retries=0)(run_request)
        self._running[task.remote(request.to_json(), self._threads)] = directory

    def _check(self, needed: dict[str, int]) -> None:
        """Ray would wait for ever for what no machine has."""
        for name, amount in needed.items():
            most = max((node["Resources"].get(name, 0) for node in self._ray.nodes() if node["Alive"]), default=0)
            if amount > most:
                remedy = "threads" if name == "CPU" else "memory"
                raise SparclError(
                    f"A trial asks for {amount} of {name}, no machine has over {most:.0f}: lower {remedy}."
                )

    def ended(self, seconds: float) -> dict[Path, Ended]:
        waited = list(self._running)
        ready, _ = self._ray.wait(waited, num_returns=1, timeout=seconds)
        if ready:
            ready, _ = self._ray.wait(waited, num_returns=len(waited), timeout=0)
        return {self._running.pop(reference): self._outcome(reference) for reference in ready}

    def _outcome(self, reference: Any) -> Ended:
        try:
            state, message = self._ray.get(reference)
            return Ended(state, message)
        except self._ray.exceptions.RayTaskError as error:
            return Ended("failed", str(error).strip().splitlines()[-1])
        except self._ray.exceptions.RayError as error:
            return Ended("lost", f"its worker was lost ({type(error).__name__})")

    def stop(self) -> None:
        """Every trial saves and ends."""
        for reference in self._running:
            self._ray.cancel(reference)
        deadline = time.monotonic() + SECONDS_TO_SAVE
        while self._running and time.monotonic() < deadline:
            self.ended(0.5)

    def close(self) -> None:
        self._ray.shutdown()
        self._silence.__exit__(None, None, None)
