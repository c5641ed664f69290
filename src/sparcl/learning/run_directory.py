"""The directory of a run: everything about it, in files that people and programs can read.

settings.json      what was asked, completely resolved
environment.json   the machine and the versions
stream.json        the tasks: names of the classes, which of them each task has, how many images
metrics.jsonl      one line an event, in order; the same seed gives the same bytes
confusion.json     which class was taken for which at the end of the newest task
result.json        accuracy matrices and their measures, written at the end
costs.json         seconds of each phase and peak memory, written at the end
checkpoints/       the last two states from which the run can be resumed
"""

import json
import os
from pathlib import Path
from typing import Any

from sparcl.checked import plain
from sparcl.errors import SparclError
from sparcl.files import TEMPORARY_SUFFIX, write_error, write_json, write_text
from sparcl.learning.settings import Settings, from_json, resolve


class RunDirectory:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"

    @staticmethod
    def check_free(path: Path) -> None:
        """That a new run can be put there."""
        if (path / "settings.json").exists():
            raise SparclError(f"{path} already holds a run. Continue it with --resume {path}, or choose another --out.")
        if path.exists() and (not path.is_dir() or any(name.suffix != TEMPORARY_SUFFIX for name in path.iterdir())):
            raise SparclError(f"{path} exists and is not an empty directory. Choose another --out.")

    @classmethod
    def create(cls, path: Path, settings: Settings, environment: dict[str, Any]) -> "RunDirectory":
        cls.check_free(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise write_error(path, error) from error
        write_json(path / "settings.json", plain(settings))  # from here on it can be resumed
        write_json(path / "environment.json", environment)
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> "RunDirectory":
        if not (path / "settings.json").is_file():
            raise SparclError(f"{path} is not a run directory: it has no settings.json.")
        if (path / "states").is_dir():
            raise SparclError(f"{path} is a learner, not a run. Look at it with: sparcl status {path}")
        return cls(path)

    def settings(self) -> Settings:
        """To run with: the method and the sparsifier must be known."""
        return resolve(self._read("settings.json"))

    def stored_settings(self) -> Settings:
        """To look at: whoever wrote the method."""
        return from_json(self._read("settings.json"))

    def result(self) -> dict[str, Any] | None:
        """The result of a finished run; None while it is unfinished."""
        return self._read("result.json") if (self.path / "result.json").exists() else None

    def warnings(self) -> tuple[str, ...]:
        """What a finished run says about its own result; most say nothing."""
        found = (self.result() or {}).get("warnings", [])
        return tuple(line for line in found if isinstance(line, str)) if isinstance(found, list) else ()

    def costs(self) -> dict[str, Any]:
        return self._read("costs.json")

    def environment(self) -> dict[str, Any]:
        return self._read("environment.json")

    def stream(self) -> dict[str, Any] | None:
        """What `Stream.describe` said; None for a run of an older version."""
        return self._read("stream.json") if (self.path / "stream.json").exists() else None

    def confusion(self) -> dict[str, Any] | None:
        """Counts [true class][predicted class]; None before the first task has ended, and for older versions."""
        return self._read("confusion.json") if (self.path / "confusion.json").exists() else None

    def events(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl. While a run goes on the last line may not be whole yet; it is left out."""
        path = self.path / "metrics.jsonl"
        try:
            lines = path.read_bytes().split(b"\n")[:-1]
        except FileNotFoundError:
            return []  # not begun
        except OSError as error:
            raise SparclError(f"{path} could not be read: {error.strerror}.") from error
        events = []
        for number, line in enumerate(lines, 1):
            try:
                event = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise SparclError(f"{path} is damaged in line {number}: {error}.") from error
            if not isinstance(event, dict) or not isinstance(event.get("event"), str):
                raise SparclError(f"{path} is damaged in line {number}: it does not hold an event.")
            events.append(event)
        return events

    def record_stream(self, description: dict[str, Any]) -> None:
        self._record("stream.json", description)

    def record_confusion(self, kind: str, task: int, counts: list[list[int]]) -> None:
        """kind: of the accuracy that the counts belong to. task: the newest one, from 0."""
        self._record("confusion.json", {"kind": kind, "task": task, "counts": counts})

    def finish(self, result: dict[str, Any], costs: dict[str, Any]) -> None:
        write_json(self.path / "costs.json", costs)
        write_json(self.path / "result.json", result)

    def _record(self, name: str, content: dict[str, Any]) -> None:
        """In one line: a table of 200 classes would have 40,000 otherwise."""
        write_text(self.path / name, json.dumps(content) + "\n")

    def _read(self, name: str) -> dict[str, Any]:
        return read_json(self.path / name)


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file."""
    try:
        content = json.loads(path.read_text())
    except OSError as error:
        raise SparclError(f"{path} could not be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise SparclError(f"{path} is damaged: {error}.") from error
    if not isinstance(content, dict):
        raise SparclError(f"{path} is damaged: it does not hold a JSON object.")
    return content


class MetricsLog:
    """An append-only file of events. A resumed run cuts it back to where its checkpoint was written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = open(path, "ab")  # noqa: SIM115 (open for as long as the run)
        except OSError as error:
            raise write_error(path, error) from error

    def write(self, event: str, **values: Any) -> None:
        try:
            self._file.write(json.dumps({"event": event, **values}).encode() + b"\n")
            self._file.flush()
        except OSError as error:
            raise write_error(self._path, error) from error

    def sync(self) -> int:
        """Make everything written so far durable; returns the length to come back to."""
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise write_error(self._path, error) from error
        return self._file.tell()

    def cut(self, length: int) -> None:
        if not 0 <= length <= self._path.stat().st_size:
            raise ValueError("metrics.jsonl is shorter than it was")
        self._file.truncate(length)
        self._file.seek(length)

    def close(self) -> None:
        self._file.close()
