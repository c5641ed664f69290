"""What tuning found, kept for the next run: one file for each processor and instruction set."""

import hashlib
import json
from pathlib import Path
from typing import Any

from sparcl import _engine
from sparcl.files import locked, make_directory, write_error, write_json
from sparcl.tuning.search import Tuned


class TuningCache:
    """A damaged or foreign file counts as empty: tuning can always be done again."""

    def __init__(self, directory: Path, machine: str) -> None:
        self.path = directory / f"tuning-{hashlib.sha256(machine.encode()).hexdigest()[:12]}.json"
        self._machine = machine

    def load(self) -> dict[str, Tuned]:
        try:
            stored = json.loads(self.path.read_text())
            return {entry["key"]: from_json(entry) for entry in stored["found"]}
        except (OSError, ValueError, KeyError, TypeError, IndexError, OverflowError, RecursionError):
            return {}

    def store(self, found: list[Tuned]) -> None:
        try:
            make_directory(self.path.parent)
            with locked(self.path.parent):  # runs that start together end their tuning together
                entries = (self.load() | {tuned.key: tuned for tuned in found}).values()
                write_json(self.path, {"machine": self._machine, "found": [to_json(tuned) for tuned in entries]})
        except OSError as error:
            raise write_error(self.path, error) from error


def to_json(tuned: Tuned) -> dict[str, Any]:
    return {
        "key": tuned.key,
        "layers": list(tuned.layers),
        "knobs": list(tuned.knobs),
        "default_ms": tuned.default_ms,
        "tuned_ms": tuned.tuned_ms,
    }


def from_json(entry: dict[str, Any]) -> Tuned:
    key = str(entry["key"])
    knobs = checked_knobs(key.split()[0], tuple(entry["knobs"]))
    layers = tuple(str(name) for name in entry["layers"])
    return Tuned(key, layers, knobs, float(entry["default_ms"]), float(entry["tuned_ms"]))


def checked_knobs(op: str, knobs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The knobs of one pass, if they are a tile and what else it has."""
    expected = (int, bool) if op == "weight_gradient" else (int, int)
    if len(knobs) != len(expected) or any(type(knob) is not kind for knob, kind in zip(knobs, expected, strict=True)):
        raise ValueError(f"the knobs {knobs} of {op} make no sense")
    tile, channels = knobs
    if tile not in range(len(_engine.TILE_SHAPES)) or (op != "weight_gradient" and not 1 <= channels <= 65536):
        raise ValueError(f"the knobs {knobs} of {op} make no sense")
    return knobs
