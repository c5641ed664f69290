"""What the cells of an experiment came to, as a grid of numbers: ours, and the paper's next to them."""

import functools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparcl.errors import SparclError
from sparcl.experiments.experiment import Column, Experiment, ExperimentRow, Group, Printed
from sparcl.experiments.trial import Trial
from sparcl.learning.costs import paper_network
from sparcl.learning.run_directory import RunDirectory
from sparcl.report.comparison import measures
from sparcl.report.paper_costs import CIFAR10_FLOPS, MEMORY, TINY_FLOPS, Cell, paper_cells

FLOPS = {"cifar10": (CIFAR10_FLOPS, 15), "tiny_imagenet": (TINY_FLOPS, 16)}  # columns, and their powers of ten
ACCURACIES: dict[Column, str] = {"class_il": "Class-IL", "task_il": "Task-IL"}
Cells = Mapping[tuple[str, str], Sequence[Trial]]  # by row and data set
Measured = Mapping[tuple[str, str], "Value"]  # speeds, which no run directory has


@dataclass(frozen=True)
class Value:
    """A number for a table; the mean over seeds, if there were several."""

    mean: float | None = None
    deviation: float | None = None
    form: str = ".2f"

    @classmethod
    def of(cls, numbers: Sequence[float | None], form: str = ".2f") -> "Value":
        known = [number for number in numbers if number is not None]
        if not known or len(known) < len(numbers):
            return cls()
        return cls(statistics.mean(known), statistics.stdev(known) if len(known) > 1 else None, form)

    @classmethod
    def printed(cls, number: Printed | None, form: str = ".2f") -> "Value":
        if isinstance(number, tuple):
            return cls(*number, form)
        return cls(number, None, form)

    def text(self, sign: str = "±") -> str:
        if self.mean is None:
            return "-"
        text = self._written(self.mean)
        return text if self.deviation is None or "e" in self.form else f"{text} {sign} {self._written(self.deviation)}"

    def _written(self, number: float) -> str:
        return format(number, self.form).replace("e+", "e")


@dataclass(frozen=True)
class Heading:
    group: str  # the data set
    name: str


@dataclass(frozen=True)
class Grid:
    title: str
    headings: list[Heading]
    rows: list[tuple[str, list[Value]]]

    def value(self, label: str, group: str, name: str) -> Value:
        if Heading(group, name) not in self.headings:
            return Value()
        place = self.headings.index(Heading(group, name))
        return next(values[place] for row, values in self.rows if row == label)

    def without_empty_columns(self) -> "Grid":
        """The paper does not print everything everywhere; our own columns stay, whatever they hold."""
        used = [
            place
            for place, heading in enumerate(self.headings)
            if "," not in heading.name or any(values[place].mean is not None for _, values in self.rows)
        ]
        rows = [(label, [values[place] for place in used]) for label, values in self.rows]
        return Grid(self.title, [self.headings[place] for place in used], rows)


def of_paper(name: str, group: Group) -> str:
    """The heading of the paper's number next to ours; it names the data set where that is another one."""
    return f"{name}, paper" if group.dataset == group.in_paper else f"{name}, paper on {group.in_paper}"


def grid(experiment: Experiment, groups: Sequence[Group], cells: Cells, root: Path, measured: Measured) -> Grid:
    """A row of the experiment is a row of the grid; a cell without results is "-"."""
    costs = _paper_costs(experiment)
    headings: list[Heading] = []
    rows: list[tuple[str, list[Value]]] = []
    for row in experiment.rows:
        values: list[Value] = []
        headings = []
        for group in groups:
            runs = _finished(cells.get((row.label, group.dataset), ()), root)
            for column in experiment.columns:
                for name, value in _column(column, row, group, runs, costs, measured).items():
                    headings.append(Heading(group.dataset, name))
                    values.append(value)
        rows.append((row.label, values))
    here = dict.fromkeys(group.dataset for group in groups if group.dataset != group.in_paper)
    title = f"{experiment.source}: {experiment.title}" + (f" (on {', '.join(here)})" if here else "")
    return Grid(title, headings, rows).without_empty_columns()


def _column(
    column: Column,
    row: ExperimentRow,
    group: Group,
    runs: Sequence[RunDirectory],
    costs: Mapping[tuple[str, str], Cell],
    measured: Measured,
) -> dict[str, Value]:
    """The values of one of the experiment's columns, by heading: ours, and the paper's."""
    printed = row.paper.get(group.in_paper, {}).get(column)
    if column in ACCURACIES:
        name = ACCURACIES[column]
        ours = Value.of([measures(run).get(name) for run in runs])
        return {name: ours, of_paper(name, group): Value.printed(printed)}
    if column in ("speed", "ms"):
        name = "times faster" if column == "speed" else "ms"
        ours = measured.get((row.label, group.dataset), Value())
        return {name: ours, of_paper(name, group): Value.printed(printed)}
    if column == "flops":
        cost_column, power = FLOPS.get(group.in_paper, ("", 0))
        cell = costs.get((row.label, cost_column))
        return {
            "FLOPs": Value.of([_counted(run) for run in runs], ".2e"),
            "FLOPs, full length": Value(float(f"{cell.ours}e{power}") if cell else None, None, ".2e"),
            of_paper("FLOPs", group): Value(float(f"{cell.paper}e{power}") if cell else None, None, ".2e"),
        }
    cell = costs.get((row.label, MEMORY))
    return {
        "MB, peak": Value.of(_peaks(runs), ".0f"),
        "MB, formula": Value(cell.ours if cell else None, None, ".0f"),
        of_paper("MB", group): Value(cell.paper if cell else None, None, ".0f"),
    }


def _peaks(runs: Sequence[RunDirectory]) -> list[float | None]:
    """Of PyTorch's processes and our engine's a mean would say nothing."""
    mixed = len({run.stored_settings().backend for run in runs}) > 1
    return [None if mixed else measures(run)["MB"] for run in runs]


def missing_seeds(cells: Cells, root: Path) -> list[str]:
    """A line for each cell whose mean is not over all of its seeds."""
    lines = []
    for (label, dataset), trials in cells.items():
        without = [str(trial.settings.seed) for trial in trials if not trial.directory(root).is_finished()]
        if without:
            seeds = f"seed {without[0]}" if len(without) == 1 else f"seeds {', '.join(without)}"
            lines.append(f"{label} ({dataset}) is without {seeds}, which did not finish.")
    return lines


def warnings(cells: Cells, root: Path) -> list[str]:
    """What runs say about their own results."""
    finished = [trial for trials in cells.values() for trial in trials if trial.directory(root).is_finished()]
    return [f"Warning: {trial.label}: {line}" for trial in finished for line in trial.directory(root).warnings()]


def _finished(trials: Sequence[Trial], root: Path) -> list[RunDirectory]:
    """Those of a cell's runs that have a result: a seed that failed must not take the others with it."""
    directories = [trial.directory(root) for trial in trials]
    return [directory for directory in directories if directory.is_finished()]


def _counted(run: RunDirectory) -> float | None:
    """FLOPs that ran, as the paper counts; older versions did not count them."""
    costs = run.costs()
    try:
        return float(costs["flops"]["paper"]["total"]) if "flops" in costs else None
    except (KeyError, TypeError, ValueError) as error:
        raise SparclError(f"{run.path}/costs.json is damaged ({error!r}).") from error


def _paper_costs(experiment: Experiment) -> dict[tuple[str, str], Cell]:
    """The paper's costs and those that its definitions give, by row and column."""
    return {(cell.row, cell.column): cell for cell in _all_paper_cells() if cell.table == experiment.cost_table}


@functools.cache
def _all_paper_cells() -> list[Cell]:
    return list(paper_cells(paper_network((3, 32, 32), 10), paper_network((3, 64, 64), 200)))
