"""Sweeps: a TOML file that names a base run, values to try in every combination, and seeds.

base = "digits/derpp"            # a preset, or a TOML file with settings, relative to this one
protocol = "full"                # optional
seeds = 3                        # 0, 1, 2; or a list
settings.epochs = 5              # changed for all trials

[grid]
method.alpha = [0.1, 0.2, 0.5]
buffer_size = [100, 200]

[search]                         # for --search instead of [grid]: see search.py
"""

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from sparcl.checked import Bounds, Checked, setting
from sparcl.errors import SparclError
from sparcl.experiments.trial import Trial
from sparcl.learning import settings
from sparcl.learning.settings import Values, validated

MAX_TRIALS = 10_000
Seed = Annotated[int, Bounds(ge=0, lt=2**32)]


class Range(Checked):
    """Where a search looks for a number."""

    low: float
    high: float
    scale: Literal["linear", "log"] = "linear"


class SearchPlan(Checked):
    trials: int = setting(default=20, ge=1, meaning="how many points are tried")
    seed: Seed = setting(default=0, meaning="of the choice of points: the same seed tries the same points")
    validation: float = setting(default=0.2, gt=0, lt=1, meaning="share of the training images that judges")
    space: dict[str, Any]


class SweepFile(Checked):
    base: str
    protocol: str | None = None
    seeds: Annotated[int, Bounds(ge=1, le=1000)] | list[Seed] = 1
    settings: dict[str, Any] = setting(factory=dict)
    grid: dict[str, Any] = setting(factory=dict)
    search: SearchPlan | None = None

    def every_seed(self) -> list[int]:
        seeds = list(range(self.seeds)) if isinstance(self.seeds, int) else list(dict.fromkeys(self.seeds))
        if not seeds:
            raise SparclError("The sweep has no seeds: give their number, or a list.")
        return seeds


class Sweep:
    def __init__(self, path: Path) -> None:
        self.file = validated(SweepFile, settings.from_file(path))
        base = self.file.base
        values = settings.from_file(path.parent / base) if base.endswith(".toml") else settings.from_preset(base)
        if self.file.protocol is not None:
            values["protocol"] = self.file.protocol
        self._base = _combined(values, self.file.settings)
        self.seeds = self.file.every_seed()

    def trials(self) -> list[Trial]:
        """Every combination of the grid, with every seed."""
        lists = flattened(self.file.grid)
        for name, choices in lists.items():
            if not isinstance(choices, list) or not choices:
                raise SparclError(f"grid.{name} must be a list of the values to try, for example [0.1, 0.2].")
        count = math.prod(map(len, lists.values())) * len(self.seeds)
        if count > MAX_TRIALS:
            raise SparclError(f"The grid has {count} trials; more than {MAX_TRIALS} are surely a mistake.")
        points = [dict(zip(lists, point, strict=True)) for point in itertools.product(*lists.values())]
        return [trial for point in points for trial in self.trials_at(point)]

    def trials_at(self, point: Mapping[str, Any], **extra: Any) -> Iterator[Trial]:
        """One point of the grid, or of a search: a trial for each seed."""
        if "seed" in point or "seed" in self.file.settings:
            raise SparclError('A sweep has seeds of its own: write seeds = [1, 2] instead of setting "seed".')
        for seed in self.seeds:
            values = self._base
            for name, value in point.items():
                values = _combined(values, nested(name, value))
            chosen = settings.resolve(_combined(values, {**extra, "seed": seed}))
            if chosen.data.root is not None:
                chosen = replace(chosen, data=replace(chosen.data, root=chosen.data.root.expanduser().resolve()))
            named = ", ".join(f"{name.removeprefix('method.')}={value}" for name, value in point.items())
            yield Trial(f"{named or self.file.base}, seed {seed}", chosen)


def flattened(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """`method.alpha` may be written with a dot or as a table in a table."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping) and not {"low", "high"} <= set(value):
            flat |= flattened(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat


def nested(name: str, value: Any) -> Values:
    """A setting by its dotted name, as the section that it stands in. Names of layers may have dots of their own."""
    before, found, layer = name.partition("layer_sparsity.")
    parts = [*f"{before}layer_sparsity".split("."), layer.strip('"')] if found else name.split(".")
    for part in reversed(parts):
        value = {part: value}
    section: Values = value
    return section


def _combined(base: Mapping[str, Any], over: Mapping[str, Any]) -> Values:
    """As `merge`, where a method or sparsifier may be given by its name alone."""
    named = {
        key: {"name": value} if key in ("method", "sparsifier") and isinstance(value, str) else value
        for key, value in over.items()
    }
    return settings.merge(base, named)
