"""Processes that may crash, hang or eat memory: they are ended in time, and `ProcessError` says what happened."""

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparcl.network.backend import thread_environment

SECONDS_BETWEEN_LOOKS = 0.1
SECONDS_TO_END = 10.0  # for a process that has closed its output
MAX_LINE = 1 << 20
SHARE_OF_FREE_MEMORY = 0.8


class ProcessError(Exception):
    """Why a process did not do what it was asked, as the second half of a sentence."""


@dataclass(frozen=True)
class Limits:
    seconds: float = 300.0  # for one answer
    megabytes: float | None = None  # of resident memory (10^6 bytes); None: most of what is free when it starts


DEFAULT_LIMITS = Limits()


class WatchedProcess:
    """A process in a session of its own: Ctrl-C is for whoever started it, and what it starts itself ends with it."""

    def __init__(self, command: Sequence[str], threads: int, limits: Limits, **options: Any) -> None:
        """options: for subprocess.Popen."""
        self.limits = limits
        self._max_bytes = limits.megabytes * 1e6 if limits.megabytes else SHARE_OF_FREE_MEMORY * _free_bytes()
        environment = {**os.environ, **thread_environment(threads), **options.pop("env", {})}
        self._process = subprocess.Popen(command, env=environment, start_new_session=True, bufsize=0, **options)
        self._received, self._closed = b"", False

    def send(self, line: bytes) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has died; `receive` says how
            self._process.stdin.write(line + b"\n")

    def receive(self) -> bytes:
        """The next line that it writes. Raises ProcessError."""
        assert self._process.stdout is not None
        output = self._process.stdout.fileno()
        ready = select.poll()
        ready.register(output, select.POLLIN)
        deadline = time.monotonic() + self.limits.seconds
        while b"\n" not in self._received:
            self._check(deadline)
            if ready.poll(1000 * SECONDS_BETWEEN_LOOKS):
                chunk = os.read(output, 1 << 16)
                if not chunk or len(self._received) > MAX_LINE:
                    self._wait_for_end()
                    raise ProcessError("its process stopped answering")
                self._received += chunk
        line, self._received = self._received.split(b"\n", 1)
        return line

    def finish(self) -> None:
        """Wait until it has ended by itself. Raises ProcessError unless it has ended well."""
        deadline = time.monotonic() + self.limits.seconds
        while self._process.poll() is None:
            self._check(deadline)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(SECONDS_BETWEEN_LOOKS)
        self._wait_for_end()

    def close(self) -> None:
        """End it, and what it has started."""
        if self._closed:
            return  # its number may belong to somebody else by now
        self._closed = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _check(self, deadline: float) -> None:
        if time.monotonic() > deadline:
            raise ProcessError(f"it did not answer within {self.limits.seconds:g} s")
        if _resident_bytes(self._process.pid) > self._max_bytes:
            raise ProcessError(f"it needed more than {self._max_bytes / 1e6:.0f} MB")

    def _wait_for_end(self) -> None:
        try:
            code = self._process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            return
        if code < 0:
            raise ProcessError(f"its process died of {_signal_words(-code)}")
        if code > 0:
            raise ProcessError(f"its process ended with exit code {code}")


def _signal_words(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
    words = (signal.strsignal(number) or "").lower()
    return f"{name} ({words}{', often for want of memory' if number == signal.SIGKILL else ''})"


def _resident_bytes(pid: int) -> int:
    """0 for a process that has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _free_bytes() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
