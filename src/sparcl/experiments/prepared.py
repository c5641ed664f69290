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
class ExperimentRequest:
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


def prepare(name: str, request: ExperimentRequest, estimates: Estimates) -> list[Prepared]:
    """The experiment of that name, or all of them that have the wanted data sets."""
    if name != EVERYTHING:
        return [_one(name, load(name), request, estimates)]
    if request.only:
        raise SparclError("Rows are chosen (only) of one table or figure, not of all of them.")
    every = {one: load(one) for one in names()}
    wanted = {
        one: loaded
        for one, loaded in every.items()
        if not request.datasets or set(request.datasets) & set(loaded.datasets)
    }
    if not wanted:
        raise SparclError(f"No table or figure is about {', '.join(request.datasets)}.")
    return [_one(one, loaded, request, estimates) for one, loaded in wanted.items()]


def _one(name: str, experiment: Experiment, request: ExperimentRequest, estimates: Estimates) -> Prepared:
    if request.only:
        experiment = experiment.only(request.only)
    own = [one for one in request.datasets if one in experiment.datasets] or list(request.datasets)
    chosen = groups(experiment, request.protocol, own)
    cells = {
        (row.label, group.dataset): [
            weighted(trial, estimates.flops(trial.settings))
            for trial in trials(experiment, row, group, request.protocol, request.every_seed(), request.changes)
        ]
        for group in chosen
        for row in experiment.rows
    }
    return Prepared(name, experiment, chosen, cells)
