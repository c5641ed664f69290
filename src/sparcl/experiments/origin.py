"""Where a table comes from: protocol, seeds, machine, date and command, to stand below it."""

from collections.abc import Sequence

from sparcl.bench.machine import Machine
from sparcl.experiments.experiment import Group
from sparcl.experiments.outcome import Cells
from sparcl.report.comparison import describe_protocol
from sparcl.report.sections import written_by


def describe(cells: Cells, notes: Sequence[str], command: str) -> str:
    """Accuracies in percent after all tasks; what all runs share, in words."""
    chosen = [trial.settings for cell in cells.values() for trial in cell]
    lines = []
    if chosen:
        seeds = sorted({one.seed for one in chosen})
        lines = [f"Protocol: {describe_protocol(chosen)}; seeds {', '.join(map(str, seeds))}.", ""]
    for note in notes:
        lines += [note, ""]
    return "\n".join([*lines, written_by(command)])


def stand_ins(groups: Sequence[Group]) -> list[str]:
    """A line for each data set that stands in for the paper's."""
    return [
        f"Our numbers are of {group.dataset}, the paper's are of {group.in_paper}: they cannot be compared."
        for group in groups
        if group.dataset != group.in_paper
    ]


def measured_here(threads: int) -> str:
    machine = Machine.describe(threads)
    return " ".join(filter(None, [f"Speeds are of {machine}; {machine.date}.", machine.warning()]))
