"""The paper's figures, drawn from the grid of an experiment."""

import math
from collections.abc import Callable, Sequence

from sparcl.experiments.experiment import Experiment, ExperimentRow, Group
from sparcl.experiments.outcome import Grid, Value, of_paper
from sparcl.figures.chart import Chart
from sparcl.figures.drawing import Drawing
from sparcl.figures.labels import BESIDE, ON_TOP
from sparcl.figures.legend import Entry
from sparcl.figures.scale import Axis, short

HERE, PAPER = 0, 1  # series
LARGEST = 16.0  # radius of the largest circle that stands for memory


def draw(experiment: Experiment, groups: Sequence[Group], grid: Grid) -> dict[str, Drawing]:
    """The figure for each data set; none where there is nothing to show."""
    drawings: dict[str, Callable[[Experiment, Group, Grid], Drawing | None]] = {
        "tradeoff": _tradeoff,
        "curve": _curve,
        "speed": _speed,
        "inference": _inference,
    }
    if experiment.kind not in drawings:
        return {}
    found = {group.dataset: drawings[experiment.kind](experiment, group, grid) for group in groups}
    return {dataset: drawing for dataset, drawing in found.items() if drawing is not None}


def _title(experiment: Experiment, group: Group) -> str:
    return f"{experiment.title} ({group.dataset})"


def _tradeoff(experiment: Experiment, group: Group, grid: Grid) -> Drawing | None:
    """Accuracy against FLOPs, as a share of the first row's: so short runs and the paper's fit into one picture."""
    ours = _pairs(experiment.rows, grid, group, "FLOPs", "Class-IL")
    theirs = _pairs(experiment.rows, grid, group, of_paper("FLOPs", group), of_paper("Class-IL", group))
    dense = experiment.rows[0].label
    if not ours or any(points[0][0] != dense for points in (ours, theirs) if points):
        return None  # there is nothing to relate the others to
    relative = [[(x / points[0][1], y) for _, x, y in points] if points else [] for points in (ours, theirs)]
    everything = [point for points in relative for point in points]
    x = Axis.around("training FLOPs, dense = 1", [across for across, _ in everything], logarithmic=True)
    y = Axis.around("Class-IL, percent", [up for _, up in everything])
    entries = [Entry("here", HERE), Entry(_paper_name(group, "paper"), PAPER, hollow=True)]
    chart = Chart(_title(experiment, group), x, y, entries[: 1 + bool(theirs)])
    chart.line(relative[PAPER], PAPER, "dashed")
    chart.line(relative[HERE], HERE)
    taken = [chart.circle(*point, 5, PAPER, "ring") for point in relative[PAPER]]
    own = [chart.circle(*point, 5, HERE, "dot") for point in relative[HERE]]
    names = [_sparsity(label) for label, _, _ in ours]
    chart.label(list(zip(own, names, strict=True)), ("above", *BESIDE), taken)
    return chart.drawing()


def _curve(experiment: Experiment, group: Group, grid: Grid) -> Drawing | None:
    """A line for each series over the rows' x; a row without a series is a level to compare with."""
    values = {row.label: grid.value(row.label, group.dataset, "Class-IL") for row in experiment.rows}
    known = {label: value for label, value in values.items() if value.mean is not None}
    if not known:
        return None
    ends = [end for value in known.values() for end in _whiskers(value)]
    across = [row.x for row in experiment.rows if row.x is not None and row.series]
    names = list(dict.fromkeys(row.series for row in experiment.rows if row.series))
    entries = [Entry(name, series) for series, name in enumerate(names)]
    x, y = Axis.around(experiment.x, across), Axis.around("Class-IL, percent", ends)
    chart = Chart(_title(experiment, group), x, y, entries)
    for series, name in enumerate(names):
        rows = [row for row in experiment.rows if row.series == name and row.label in known]
        points = [(row.x, known[row.label]) for row in rows if row.x is not None]
        chart.line([(at, value.mean or 0.0) for at, value in points], series)
        for at, value in points:
            chart.circle(at, value.mean or 0.0, 3.5, series, "dot")
            chart.whisker(at, *_whiskers(value), series)
    for row in experiment.rows:
        if not row.series and row.label in known:
            chart.level(known[row.label].mean or 0.0, row.label)
    return chart.drawing()


def _speed(experiment: Experiment, group: Group, grid: Grid) -> Drawing | None:
    """Accuracy against speed; the circle is the measured peak of memory."""
    points = _pairs(experiment.rows, grid, group, "times faster", "Class-IL")
    memory = {label: grid.value(label, group.dataset, "MB, peak").mean for label, _, _ in points}
    known = [peak for peak in memory.values() if peak is not None]
    if not points or not known:
        return None
    series = {row.label: row.series for row in experiment.rows}
    names = list(dict.fromkeys(series.values()))
    x = Axis.around("training step, times faster than dense", [across for _, across, _ in points])
    y = Axis.around("Class-IL, percent", [up for _, _, up in points])
    chart = Chart(_title(experiment, group), x, y, [Entry(name, place) for place, name in enumerate(names)])
    marks = []
    for label, across, up in points:
        peak = memory[label] or 0.0
        radius = LARGEST * math.sqrt(peak / max(known))  # the circle's area is the memory
        box = chart.circle(across, up, radius, names.index(series[label]))
        marks.append((box, f"{_sparsity(label)}, {peak:.0f} MB"))
    chart.label(marks)
    return chart.drawing()


def _inference(experiment: Experiment, group: Group, grid: Grid) -> Drawing | None:
    """Bars: here, and on the paper's phone."""
    names = ("ms", of_paper("ms", group))
    pairs = [[grid.value(row.label, group.dataset, name).mean for name in names] for row in experiment.rows]
    known = [value for values in pairs for value in values if value is not None]
    if not known:
        return None
    labels = [(number, row.label) for number, row in enumerate(experiment.rows)]
    x = Axis("sparsity", -0.6, len(pairs) - 0.4, labels)
    y = Axis.covering("milliseconds", [0.0, 1.1 * max(known)])
    entries = [Entry("here", HERE), Entry(_paper_name(group, "paper's phone"), PAPER)]
    chart = Chart(_title(experiment, group), x, y, entries)
    marks = []
    for number, values in enumerate(pairs):
        for series, value in enumerate(values):
            if value is not None:
                left = number + 0.36 * (series - 1)
                marks.append((chart.bar(left, left + 0.32, value, series), short(_rounded(value))))
    chart.label(marks, ON_TOP)
    return chart.drawing()


def _rounded(value: float) -> float:
    """To the digits that a measurement is worth."""
    return float(f"{value:.3g}" if value >= 1 else f"{value:.2g}")


def _pairs(rows: Sequence[ExperimentRow], grid: Grid, group: Group, x: str, y: str) -> list[tuple[str, float, float]]:
    """Label, x and y of the rows that have both."""
    found = [
        (row.label, grid.value(row.label, group.dataset, x).mean, grid.value(row.label, group.dataset, y).mean)
        for row in rows
    ]
    return [(label, across, up) for label, across, up in found if across is not None and up is not None]


def _paper_name(group: Group, name: str) -> str:
    return name if group.dataset == group.in_paper else f"{name}, {group.in_paper}"


def _whiskers(value: Value) -> tuple[float, float]:
    mean, deviation = value.mean or 0.0, value.deviation or 0.0
    return mean - deviation, mean + deviation


def _sparsity(label: str) -> str:
    """What tells the rows of a method apart: the sparsity behind its name."""
    words = label.split(" (")[0].split()
    return words[-1] if len(words) > 1 else "dense"
