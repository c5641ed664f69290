"""Starting the process of a trial, and understanding how it ended."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sparcl.experiments import worker
from sparcl.network.backend import thread_environment

State = Literal["finished", "stopped", "failed", "lost"]


@dataclass(frozen=True)
class Ended:
    """How a trial's process ended. `lost`: it was killed, and the trial can go on from its checkpoint."""

    state: State
    message: str = ""


@dataclass(frozen=True)
class TrialRequest:
    """Everything a worker must know, wherever it runs."""

    directory: Path
    settings: dict[str, Any]
    threads: int
    plugins: Sequence[Path] = ()
    cpus: Sequence[int] = ()  # to stay on; none: wherever the system puts it

    def to_json(self) -> str:
        return json.dumps(
            {
                "directory": str(self.directory),
                "settings": self.settings,
                "threads": self.threads,
                "plugins": [str(path) for path in self.plugins],
                "cpus": list(self.cpus),
                "environment": {name: value for name, value in os.environ.items() if name.startswith("SPARCL_")},
            }
        )


class WorkerProcess:
    def __init__(self, request_json: str, threads: int) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (open for as long as the process)
        self._process = subprocess.Popen(
            [sys.executable, "-m", worker.__name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            start_new_session=True,  # Ctrl-C is for whoever started it, who then asks it to stop
            env={**os.environ, **thread_environment(threads)},
        )
        assert self._process.stdin is not None
        self._input = self._process.stdin
        with contextlib.suppress(BrokenPipeError):  # it has died already; `ended` will say so
            self._input.write(request_json.encode() + b"\n")
            self._input.flush()

    def stop(self) -> None:
        """Ask it to save and end."""
        with contextlib.suppress(BrokenPipeError):
            self._input.close()

    def kill(self) -> None:
        self._process.kill()

    def wait(self, seconds: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def ended(self) -> Ended | None:
        """None while it runs."""
        code = self._process.poll()
        if code is None:
            return None
        self.stop()
        if code == worker.FINISHED:
            return Ended("finished")
        if code == worker.STOPPED:
            return Ended("stopped")
        if code < 0:
            return Ended("lost", f"its process was ended by signal {-code}")
        return Ended("failed", self._last_words() or f"its process ended with code {code}")

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        said = [line.removeprefix(worker.SAID) for line in lines if line.startswith(worker.SAID)]
        return (said or lines or [""])[-1]
