"""The process of one trial: `python -m sparcl.experiments.worker`, with its request on standard input.

The request is one line of JSON. The process works for as long as its standard input stays open: when whoever started it
dies, or closes it, the run is saved and the process ends. So a trial never goes on behind the back of a new start.
"""

import contextlib
import json
import os
import socket
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from sparcl.checked import plain
from sparcl.errors import SparclError
from sparcl.experiments.trial import PROGRESS_FILE, Progress
from sparcl.files import BusyError, Directory, locked
from sparcl.learning.evaluation import Accuracies
from sparcl.learning.plugins import import_plugins
from sparcl.learning.position import Position
from sparcl.learning.run_directory import RunDirectory
from sparcl.learning.runner import Run
from sparcl.learning.settings import resolve
from sparcl.learning.trainer import Stopped

FINISHED, FAILED, STOPPED = 0, 1, 3
SAID = "sparcl: "  # before what a person shall read
SECONDS_BETWEEN_REPORTS = 0.5
PATIENCE = 120.0  # seconds for a process that still saves the same trial


class ProgressFile:
    """Tells whoever watches how far the run is. Not worth a sync: after a crash nobody needs it."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory.held
        self._written = 0.0
        self._said = Progress(pid=os.getpid(), host=socket.gethostname())

    def noted(self, text: str) -> None: ...

    def warned(self, text: str) -> None:
        print(SAID + text, file=sys.stderr)

    def started(self, total_steps: int, done_steps: int) -> None:
        self._started = time.monotonic()
        self._write(total=total_steps, done=done_steps, resumed_at=done_steps)

    def stepped(self, position: Position, loss: float) -> None:
        if time.monotonic() - self._written < SECONDS_BETWEEN_REPORTS:
            return
        place = f"task {position.task + 1}, epoch {position.epoch + 1}"
        seconds = time.monotonic() - self._started
        self._write(done=position.total_steps, place=place, seconds=seconds)

    def evaluated(self, position: Position, accuracies: Accuracies) -> None:
        known = {kind: [value for value in row if value is not None] for kind, row in accuracies.items()}
        self._write(accuracy={kind: sum(row) / len(row) for kind, row in known.items() if row})

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._directory.remove(PROGRESS_FILE)

    def _write(self, **news: Any) -> None:
        self._said = replace(self._said, **news)
        self._written = time.monotonic()
        with contextlib.suppress(SparclError):  # a full disk will be noticed by what matters
            self._directory.write_bytes(PROGRESS_FILE, json.dumps(plain(self._said)).encode(), durable=False)


def main() -> None:
    request = json.loads(sys.stdin.readline() or "null")
    if request is None:
        sys.exit(STOPPED)
    try:
        sys.exit(_work(request))
    except SparclError as error:
        message = str(error)
    except MemoryError:
        message = "There is not enough memory for this trial. Run fewer at once."
    print(SAID + message, file=sys.stderr)
    sys.exit(FAILED)


def _work(request: dict[str, Any]) -> int:
    os.environ.update(request["environment"])  # where data and caches lie, as whoever started all this has it
    if request["cpus"]:
        os.sched_setaffinity(0, request["cpus"])
    import_plugins([Path(file) for file in request["plugins"]])
    path = Path(request["directory"])
    path.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        directory = RunDirectory(path, _lock(stack, path))
        directory.remove_leftovers()
        if directory.is_finished():
            return FINISHED
        chosen = None if directory.has_begun() else replace(resolve(request["settings"]), threads=request["threads"])
        run = Run(directory, chosen)
        report = ProgressFile(directory)
        stack.callback(report.close)
        run.prepare(report)
        _stop_when_abandoned(run)
        try:
            run.learn()
        except Stopped:
            return STOPPED
    return FINISHED


def _lock(stack: contextlib.ExitStack, path: Path) -> Directory:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return stack.enter_context(locked(path))
        except BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _stop_when_abandoned(run: Run) -> None:
    def watch() -> None:
        os.read(0, 1)  # returns when the other end is closed
        run.request_stop()

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    main()
