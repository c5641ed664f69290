"""The directory of a run: everything about it, in files that people and programs can read.

settings.json      what was asked, completely resolved
environment.json   the machine and the versions
stream.json        the tasks: names of the classes, which of them each task has, how many images
metrics.jsonl      one line an event, in order; the same seed gives the same bytes
confusion.json     which class was taken for which at the end of the newest task
result.json        accuracy matrices and their measures, written at the end
costs.json         seconds of each phase and peak memory, written at the end
tuning.json        the engine's knobs, if the run was tuned
checkpoints/       the last two states from which the run can be resumed

The JSON files carry a seal (`seals`): what has changed since it was written is refused, not used.
"""

import contextlib
import json
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from sparcl.checked import plain
from sparcl.errors import SparclError, UnfinishedError
from sparcl.files import LEFTOVER, Directory, as_json, from_json, write_error
from sparcl.learning import checkpoints, settings
from sparcl.learning.settings import Settings
from sparcl.seals import sealed
from sparcl.tensor_files import State, Tensors

CHECKPOINTS = "checkpoints"
METRICS = "metrics.jsonl"
ENVIRONMENT = "environment.json"
Restored = TypeVar("Restored")


class RunDirectory:
    """`held` is the directory that was locked: whoever writes needs it, and it may have another name by now."""

    def __init__(self, path: Path, held: Directory | None = None) -> None:
        self.path, self._held = path, held

    @staticmethod
    def check_free(path: Path) -> None:
        """That a new run can be put there."""
        if (path / "settings.json").exists():
            raise UnfinishedError(f"{path} already holds a run. For a new one choose another directory.", "run", path)
        if not RunDirectory.is_free(path):
            raise SparclError(f"{path} exists and is not an empty directory. Choose another one.")

    @staticmethod
    def is_free(path: Path) -> bool:
        """Not there, or empty but for what a run leaves that was killed before it had begun."""
        if not path.is_dir():
            return not path.exists()
        return all(file.name == ENVIRONMENT or LEFTOVER.fullmatch(file.name) for file in path.iterdir())

    @classmethod
    def create(cls, path: Path, settings: Settings, environment: dict[str, Any]) -> "RunDirectory":
        """For whoever does not lock it: a run of one's own, in this process."""
        cls.check_free(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise write_error(path, error) from error
        directory = cls(path)
        directory.begin(settings, environment)
        return directory

    def begin(self, settings: Settings, environment: dict[str, Any]) -> None:
        self._write(ENVIRONMENT, environment)
        try:
            self._write("settings.json", plain(settings))  # from here on it is a run, and can be resumed
        except SparclError:
            with contextlib.suppress(OSError):
                self.held.remove(ENVIRONMENT)
            raise

    def remove_leftovers(self) -> None:
        """What was half-written when somebody was killed here. Only under a lock."""
        self.held.remove_leftovers(CHECKPOINTS)

    @classmethod
    def open(cls, path: Path) -> "RunDirectory":
        if not (path / "settings.json").is_file():
            raise SparclError(f"{path} is not a run directory: it has no settings.json.")
        if (path / "states").is_dir():
            raise SparclError(f"{path} is a learner, not a run. Look at it with: sparcl status {path}")
        return cls(path)

    @property
    def held(self) -> Directory:
        """What is written into."""
        if self._held is None:
            try:
                self._held = Directory.open(self.path)
            except OSError as error:
                raise write_error(self.path, error) from error
        return self._held

    def current_path(self) -> Path:
        """Where it is by now, if it was renamed while the run was being made; raises SparclError if it was removed."""
        return self._held.current_path() if self._held else self.path

    def has_begun(self) -> bool:
        return self._is_there("settings.json")

    def is_finished(self) -> bool:
        return self._is_there("result.json")

    def _is_there(self, name: str) -> bool:
        return self._held.exists(name) if self._held else (self.path / name).is_file()

    def settings(self) -> Settings:
        """To run with: the method and the sparsifier must be known."""
        return self._settings(settings.resolve)

    def stored_settings(self) -> Settings:
        """To look at: whoever wrote the method."""
        return self._settings(settings.from_json)

    def _settings(self, check: Callable[[dict[str, Any]], Settings]) -> Settings:
        stored = self._read("settings.json")
        try:
            return check(stored)
        except SparclError as error:
            raise SparclError(f"{self.path / 'settings.json'} cannot be used: {error}") from error

    def result(self) -> dict[str, Any] | None:
        """The result of a finished run; None while it is unfinished."""
        return self._read_if_there("result.json")

    def warnings(self) -> tuple[str, ...]:
        """What a finished run says about its own result; most say nothing."""
        found = (self.result() or {}).get("warnings", [])
        return tuple(line for line in found if isinstance(line, str)) if isinstance(found, list) else ()

    def costs(self) -> dict[str, Any]:
        return {name: value for name, value in self._read("costs.json").items() if name != "metrics_checksum"}

    def environment(self) -> dict[str, Any]:
        return self._read(ENVIRONMENT)

    def stream(self) -> dict[str, Any] | None:
        """What `Stream.describe` said; None for a run of an older version."""
        return self._read_if_there("stream.json")

    def confusion(self) -> dict[str, Any] | None:
        """Counts [true class][predicted class]; None before the first task has ended, and for older versions."""
        return self._read_if_there("confusion.json")

    def tuning(self) -> dict[str, Any] | None:
        """The knobs of each convolution; None for a run that was not tuned."""
        return self._read_if_there("tuning.json")

    def events(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl. While a run goes on the last line may not be whole yet; it is left out."""
        path = self.path / METRICS
        try:
            content = self._bytes(METRICS)
        except FileNotFoundError:
            return []  # not begun
        except OSError as error:
            raise SparclError(f"{path} could not be read: {error.strerror}.") from error
        events = []
        for number, line in enumerate(content.split(b"\n")[:-1], 1):
            try:
                event = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise SparclError(f"{path} is damaged in line {number}: {error}.") from error
            if not isinstance(event, dict) or not isinstance(event.get("event"), str):
                raise SparclError(f"{path} is damaged in line {number}: it does not hold an event.")
            events.append(event)
        checksum = self._read("costs.json").get("metrics_checksum") if self.result() is not None else None
        if checksum is not None and checksum != zlib.crc32(content):
            raise SparclError(f"{path} is damaged: it is no longer what the run has written.")
        return events

    def record_stream(self, description: dict[str, Any]) -> None:
        self._record("stream.json", description)

    def record_confusion(self, kind: str, task: int, counts: list[list[int]]) -> None:
        """kind: of the accuracy that the counts belong to. task: the newest one, from 0."""
        self._record("confusion.json", {"kind": kind, "task": task, "counts": counts})

    def record_tuning(self, knobs: dict[str, Any]) -> None:
        self._write("tuning.json", knobs)

    def finish(self, result: dict[str, Any], costs: dict[str, Any], metrics_checksum: int) -> None:
        self._write("costs.json", {**costs, "metrics_checksum": metrics_checksum})
        self._write("result.json", result)

    # Checkpoints

    def save_checkpoint(self, number: int, tensors: Tensors, state: State) -> None:
        try:
            directory = self.held.subdirectory(CHECKPOINTS, make=True)
        except OSError as error:
            raise self.held.write_error(CHECKPOINTS, error) from error
        with directory:
            checkpoints.save(directory, number, tensors, state)

    def restore_checkpoint(
        self, restore: Callable[[Tensors, State], Restored], note: Callable[[str], None]
    ) -> Restored | None:
        """See `checkpoints.restore_newest`."""
        if not self.held.exists(CHECKPOINTS):
            return None
        with self.held.subdirectory(CHECKPOINTS) as directory:
            return checkpoints.restore_newest(directory, restore, note)

    def has_checkpoint(self) -> bool:
        """Whether there is one, however whole it may be."""
        if not self.held.exists(CHECKPOINTS):
            return False
        with self.held.subdirectory(CHECKPOINTS) as directory:
            return bool(checkpoints.newest_first(directory))

    def load_checkpoint(self, prefix: str = "") -> tuple[Tensors, State] | None:
        """The newest that is whole, to look at. See `checkpoints.load_newest`."""
        path = self.path / CHECKPOINTS
        if not path.is_dir():
            return None
        with Directory.open(path) as directory:
            return checkpoints.load_newest(directory, prefix)

    def _record(self, name: str, content: dict[str, Any]) -> None:
        """In one line: a table of 200 classes would have 40,000 otherwise."""
        self.held.write_bytes(name, json.dumps(sealed(content)).encode() + b"\n")

    def _write(self, name: str, content: dict[str, Any]) -> None:
        self.held.write_bytes(name, as_json(sealed(content)))

    def _bytes(self, name: str) -> bytes:
        return self._held.read_bytes(name) if self._held else (self.path / name).read_bytes()

    def _read(self, name: str) -> dict[str, Any]:
        found = self._read_if_there(name)
        if found is None:
            raise SparclError(f"{self.path / name} could not be read: it is not there.")
        return found

    def _read_if_there(self, name: str) -> dict[str, Any] | None:
        path = self.path / name
        try:
            content = self._bytes(name)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SparclError(f"{path} could not be read: {error.strerror}.") from error
        return from_json(content, path)


class MetricsLog:
    """An append-only file of events. A resumed run cuts it back to where its checkpoint was written."""

    def __init__(self, directory: Directory) -> None:
        self._directory, self._checksum = directory, 0
        try:
            self._file = directory.open_file(METRICS, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        except OSError as error:
            raise directory.write_error(METRICS, error) from error

    def write(self, event: str, **values: Any) -> None:
        line = json.dumps({"event": event, **values}).encode() + b"\n"
        try:
            self._file.write(line)
            self._file.flush()
        except OSError as error:
            raise self._directory.write_error(METRICS, error) from error
        self._checksum = zlib.crc32(line, self._checksum)

    def sync(self) -> tuple[int, int]:
        """Make everything written so far durable; returns its length and its checksum, to come back to."""
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._directory.write_error(METRICS, error) from error
        return os.fstat(self._file.fileno()).st_size, self._checksum

    def cut(self, length: int, checksum: int | None) -> None:
        """Back to a length; raises ValueError if what is left is not what it was. Version 0.1.0 knew no checksum."""
        kept = self._directory.read_bytes(METRICS)
        if not 0 <= length <= len(kept):
            raise ValueError("metrics.jsonl is shorter than it was")
        found = zlib.crc32(memoryview(kept)[:length])
        if checksum is not None and checksum != found:
            raise ValueError("metrics.jsonl has changed since")
        self._file.truncate(length)
        self._checksum = found

    def close(self) -> None:
        self._file.close()
