"""A side of a measurement in a process of its own, where a crash of foreign code harms nobody else.

The parent asks and the child (contender_child.py) answers, a line of JSON each: so all sides take turns, only one works
at a time, and whoever waits for its turn sleeps. Our own side runs in the same way: no side has an advantage.
"""

import contextlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from sparcl.bench import contender_child
from sparcl.bench.timing import LeftOutError, Note, Step
from sparcl.bench.watched import Limits, ProcessError, WatchedProcess
from sparcl.checked import plain
from sparcl.errors import SparclError

SENSELESS = "its answer makes no sense"


@dataclass(frozen=True)
class Side:
    """Who takes part: `make(**arguments)`, called in the child, gives its step."""

    name: str
    title: str  # for people
    make: Callable[..., Step]
    arguments: Mapping[str, Any]  # plain data and dataclasses; the child checks them against the annotations of `make`
    must_work: bool = False


class Contender:
    """Raises LeftOutError when its process fails, or SparclError if nothing can be compared without it (must_work)."""

    def __init__(self, title: str, threads: int, limits: Limits, must_work: bool = False) -> None:
        self.title, self._must_work = title, must_work
        self._process = WatchedProcess(
            [sys.executable, "-P", "-m", contender_child.__name__],
            threads,
            limits,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path)},
        )

    def call(self, function: Callable[..., Any], **arguments: Any) -> Any:
        """What a function of a module returns in the child, as plain data."""
        return self._ask({"call": _address(function), "arguments": plain(arguments)})

    def prepare(self, make: Callable[..., Step], **arguments: Any) -> None:
        """Let the child make a step and run it once; `turn` measures it."""
        self._ask({"prepare": _address(make), "arguments": plain(arguments)})

    def turn(self, count: int) -> list[float]:
        """The seconds of each of `count` steps."""
        seconds = self._ask({"turn": count})
        if not isinstance(seconds, list) or len(seconds) != count or not all(map(_is_time, seconds)):
            raise self._failed(SENSELESS)
        return seconds

    def close(self) -> None:
        self._process.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, request: dict[str, Any]) -> Any:
        self._process.send(json.dumps(request).encode())
        try:
            answer = json.loads(self._process.receive())
        except ProcessError as failure:
            raise self._failed(str(failure)) from None
        except ValueError:
            answer = None
        match answer:
            case {"value": value}:
                return value
            case {"failed": reason}:
                raise self._failed(str(reason))
        raise self._failed(SENSELESS)

    def _failed(self, reason: str) -> Exception:
        self.close()
        if self._must_work:
            return SparclError(f"{self.title} failed: {reason}.")
        return LeftOutError(f"{self.title} left out: {reason}.")


def start(
    side: Side, threads: int, limits: Limits, processes: contextlib.ExitStack, note: Note
) -> dict[str, Contender]:
    """The side's process by its name, ready for its turns; nothing but a note if it fails."""
    contender = processes.enter_context(Contender(side.title, threads, limits, side.must_work))
    try:
        contender.prepare(side.make, **side.arguments)
    except LeftOutError as failure:
        note(str(failure))
        return {}
    return {side.name: contender}


def _is_time(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value) and value >= 0


def _address(function: Callable[..., Any]) -> str:
    """Where the child finds it."""
    module = function.__module__
    if module == "__main__":  # started with python -m
        module = sys.modules[module].__spec__.name  # type: ignore[union-attr]
    return f"{module}:{function.__qualname__}"
