"""The paper's tables and figures as files: which runs they are made of, and what the paper prints for each.

A row names a run as a preset does (`sparcl-derpp-90`), and what is set otherwise. Whatever a row is printed with in the
paper is data in the same file. Costs are not: they come from the cost accounting (report/paper_costs.py).
"""

import fnmatch
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from sparcl.checked import Checked, setting
from sparcl.errors import SparclError
from sparcl.experiments.trial import Trial
from sparcl.learning import settings
from sparcl.learning.protocols import DEFAULT_PROTOCOL, PROTOCOLS

Printed = float | tuple[float, float]  # a mean, or a mean and a standard deviation
Kind = Literal["table", "tradeoff", "curve", "speed", "inference"]
Column = Literal["class_il", "task_il", "flops", "memory", "speed", "ms"]

SMOKE = "smoke"  # a protocol of the digits, which stand in for every data set
STAND_IN = "digits"


class ExperimentRow(Checked):
    label: str
    run: str | None = None  # as in a preset, without the data set; None: nothing is learned for this row
    settings: dict[str, Any] = setting(factory=dict)
    series: str = ""  # of a figure: rows of one series belong together
    x: float | None = None
    paper: dict[str, dict[Column, Printed]] = setting(factory=dict)  # by data set


class Experiment(Checked):
    source: str  # where the paper has it
    title: str
    kind: Kind = "table"
    datasets: list[str]
    columns: list[Column]
    costs_of: str = ""  # the table whose costs belong to these rows, if it is not the source
    x: str = ""  # what the rows' x is
    settings: dict[str, Any] = setting(factory=dict)
    protocols: dict[str, dict[str, Any]] = setting(factory=dict)  # what is set for one protocol only
    rows: list[ExperimentRow]

    @property
    def cost_table(self) -> str:
        return (self.costs_of or self.source).removeprefix("Table ")

    def only(self, patterns: Sequence[str]) -> "Experiment":
        """With those rows whose labels match one of the patterns."""
        unmatched = [one for one in patterns if not fnmatch.filter([row.label for row in self.rows], one)]
        if unmatched:
            labels = ", ".join(row.label for row in self.rows)
            raise SparclError(f"{self.source} has no row {unmatched[0]!r}. Its rows are: {labels}.")
        # In these figures everything is relative to the first row, so it stays.
        reference = self.rows[:1] if self.kind in ("speed", "tradeoff") else []
        kept = [row for row in self.rows if any(fnmatch.fnmatchcase(row.label, one) for one in patterns)]
        return replace(self, rows=[*(row for row in reference if row not in kept), *kept])


@dataclass(frozen=True)
class Group:
    """The columns of one data set."""

    dataset: str
    in_paper: str  # the data set whose printed numbers stand beside it


def names() -> list[str]:
    """Every experiment of the paper: its tables, then its figures."""
    files = resources.files("sparcl.experiments") / "paper"
    every = [file.name.removesuffix(".toml") for file in files.iterdir()]
    return sorted(every, key=lambda name: (name.startswith("fig"), name.casefold()))


def load(name: str) -> Experiment:
    """One of the paper's, or a file of the user's own."""
    if name.endswith(".toml"):
        own = settings.validated(Experiment, settings.from_file(Path(name)))
        if not own.datasets or not own.rows:
            raise SparclError(f"{name} has nothing to learn: it needs datasets and rows.")
        for given in (own.datasets, [row.label for row in own.rows]):
            for one, count in Counter(given).items():
                if count > 1:
                    raise SparclError(f"{name}: {one!r} is there twice. Each needs a name of its own.")
        if own.kind == "speed" and any(row.run is None for row in own.rows):
            raise SparclError(f"{name} measures training steps (kind = 'speed'): each of its rows needs a run.")
        return own
    known = {one.casefold(): one for one in names()}
    chosen = settings.choose("table or figure", known.get(name.casefold(), name), dict.fromkeys(known.values()))
    with resources.as_file(resources.files("sparcl.experiments") / "paper" / f"{chosen}.toml") as path:
        return settings.validated(Experiment, settings.from_file(path))


def groups(experiment: Experiment, protocol: str, datasets: Sequence[str]) -> list[Group]:
    """The data sets to learn: all of the experiment, or those that were chosen."""
    for one in datasets:
        settings.choose(f"data set in {experiment.source}", one, dict.fromkeys(experiment.datasets))
    chosen = [one for one in experiment.datasets if one in (datasets or experiment.datasets)]
    if protocol == SMOKE:
        return [Group(STAND_IN, chosen[0])]
    for one in chosen:
        settings.choose(f"protocol of {one}", protocol, PROTOCOLS.get(one, {DEFAULT_PROTOCOL: {}}))
    return [Group(one, one) for one in chosen]


def trials(
    experiment: Experiment,
    row: ExperimentRow,
    group: Group,
    protocol: str,
    seeds: Sequence[int],
    changes: Sequence[str] = (),
) -> list[Trial]:
    """The runs of a cell, one a seed; changes are `key=value`, for all cells alike."""
    if row.run is None:
        return []
    values = settings.from_preset(f"{group.dataset}/{row.run}")
    for part in (experiment.settings, experiment.protocols.get(protocol, {}), row.settings, {"protocol": protocol}):
        values = settings.merge(values, part)
    values = settings.with_changes(values, changes)
    if "seed" in values:
        raise SparclError("An experiment runs with several seeds: choose how many (seeds), and do not set seed.")
    chosen = settings.resolve({**values, "seed": 0})
    seeded = [replace(chosen, seed=seed) for seed in seeds]
    return [Trial(f"{row.label}, {group.dataset}, seed {one.seed}", one) for one in seeded]


def weighted(trial: Trial, weight: float) -> Trial:
    return replace(trial, weight=weight)
