"""An experiment made ready: its cells, each with the trials of its seeds."""

from collections.abc import Sequence
from dataclasses import dataclass

from sparcl.errors import SparclError
from sparcl.experiments.estimate import Estimates
from sparcl.experiments.experiment import SMOKE, Experiment, Group, groups, load, names, trials, weighted
from sparcl.experiments.outcome import Cells
from sparcl.experiments.trial import Trial

EVERYTHING = "all"
PAPER_SEEDS = 3


@dataclass(frozen=True)
class Wish:
    """What is asked for, of whichever experiment."""

    protocol: str
    seeds: int = 0  # 0: as in the paper; one where it is only tried whether all works
    datasets: Sequence[str] = ()  # none: all that the experiment has
    only: Sequence[str] = ()  # patterns for labels of rows; none: all
    changes: Sequence[str] = ()  # key=value

    def every_seed(self) -> range:
        return range(self.seeds or (1 if self.protocol == SMOKE else PAPER_SEEDS))


@dataclass(frozen=True)
class Prepared:
    name: str
    experiment: Experiment
    groups: list[Group]
    cells: Cells

    def trials(self) -> list[Trial]:
        return [trial for cell in self.cells.values() for trial in cell]


def prepare(name: str, wish: Wish, estimates: Estimates) -> list[Prepared]:
    """The experiment of that name, or all of them that have the wanted data sets."""
    if name != EVERYTHING:
        return [_one(name, load(name), wish, estimates)]
    if wish.only:
        raise SparclError("--only chooses rows of one table or figure, not of all of them.")
    every = {one: load(one) for one in names()}
    wanted = {
        one: loaded for one, loaded in every.items() if not wish.datasets or set(wish.datasets) & set(loaded.datasets)
    }
    if not wanted:
        raise SparclError(f"No table or figure is about {', '.join(wish.datasets)}.")
    return [_one(one, loaded, wish, estimates) for one, loaded in wanted.items()]


def _one(name: str, experiment: Experiment, wish: Wish, estimates: Estimates) -> Prepared:
    if wish.only:
        experiment = experiment.only(wish.only)
    own = [one for one in wish.datasets if one in experiment.datasets] or list(wish.datasets)
    chosen = groups(experiment, wish.protocol, own)
    cells = {
        (row.label, group.dataset): [
            weighted(trial, estimates.flops(trial.settings))
            for trial in trials(experiment, row, group, wish.protocol, wish.every_seed(), wish.changes)
        ]
        for group in chosen
        for row in experiment.rows
    }
    return Prepared(name, experiment, chosen, cells)
