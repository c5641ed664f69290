"""The paper's figures, drawn from the grid of an experiment."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sparcl.experiments.drawing import GREY, INK, Board, Point
from sparcl.experiments.experiment import Experiment, ExperimentRow, Group
from sparcl.experiments.labels import BESIDE, GAP, ON_TOP, Box, Side, place_labels, text_width
from sparcl.experiments.outcome import Grid, Value, of_paper

WIDTH, HEIGHT = 480, 356
LEFT, RIGHT, TOP, BOTTOM = 62, 22, 66, 54
COLOURS = ("#2f6fd0", "#d9822b", "#3fa45b", "#8a4fc0", "#c0395b")
LARGEST = 16.0  # radius of the largest circle that stands for memory


@dataclass(frozen=True)
class Axis:
    title: str
    low: float
    high: float
    logarithmic: bool = False

    @classmethod
    def around(cls, title: str, values: Sequence[float], logarithmic: bool = False) -> "Axis":
        """With some room beside the outermost values."""
        low, high = (min(values), max(values)) if values else (0.0, 1.0)
        if logarithmic:
            return cls(title, low / 1.4, high * 1.4, True)
        room = 0.12 * (high - low) or 0.1 * abs(high) or 1.0
        return cls(title, low - room, high + room)

    def share(self, value: float) -> float:
        """From 0 at the low end to 1 at the high end."""
        if self.logarithmic:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        if self.logarithmic:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            every = [factor * 10.0**power for power in range(first, last + 1) for factor in (1, 2, 5)]
            return [tick for tick in every if self.low <= tick <= self.high]
        rough = (self.high - self.low) / 5
        size = 10.0 ** math.floor(math.log10(rough))
        step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough)
        count = range(math.ceil(self.low / step), math.floor(self.high / step) + 1)
        return [round(number * step, 10) for number in count]


class Plot:
    def __init__(self, title: str, x: Axis, y: Axis, x_names: Sequence[str] | None = None) -> None:
        """With names, these stand at 0, 1, 2, ... on the axis instead of numbers."""
        self.x, self.y = x, y
        self.board = Board(WIDTH, HEIGHT)
        self.board.text((LEFT, 18), title, "start")
        for tick in y.ticks():
            level = self.at(x.low, tick)[1]
            self.board.line([(LEFT, level), (WIDTH - RIGHT, level)], "#e3e6ea")
            self.board.text((LEFT - 6, level + 4), f"{tick:g}", "end", GREY)
        numbers = [(tick, f"{tick:g}") for tick in x.ticks()]
        for tick, name in list(enumerate(x_names)) if x_names is not None else numbers:
            place = self.at(tick, y.low)
            self.board.line([place, (place[0], place[1] + 4)], GREY)
            self.board.text((place[0], place[1] + 18), name, "middle", GREY)
        self.board.line([(LEFT, HEIGHT - BOTTOM), (WIDTH - RIGHT, HEIGHT - BOTTOM)], GREY)
        self.board.text(((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 16), x.title)
        self.board.text((LEFT, TOP - 10), y.title, "start", GREY)

    def at(self, x: float, y: float) -> Point:
        across = LEFT + self.x.share(x) * (WIDTH - LEFT - RIGHT)
        return across, HEIGHT - BOTTOM - self.y.share(y) * (HEIGHT - TOP - BOTTOM)

    def legend(self, names: Sequence[tuple[str, str]]) -> None:
        """Below the title."""
        across = float(LEFT)
        for name, colour in names:
            self.board.circle((across + 4, 32), 4, colour)
            self.board.text((across + 13, 36), name, "start")
            across += text_width(name) + 30

    def label(
        self, marks: Sequence[tuple[Box, str]], sides: Sequence[Side] = BESIDE, taken: Sequence[Box] = ()
    ) -> None:
        """Name the marks, when all of them are drawn. A line leads to a name that is not next to its mark."""
        area = Box(LEFT, TOP - 6, WIDTH - 2, HEIGHT - BOTTOM - 1)
        for (mark, text), label in zip(marks, place_labels(marks, area, sides, taken), strict=True):
            if label.distance > GAP:
                x, y = (mark.left + mark.right) / 2, (mark.top + mark.bottom) / 2
                end = (min(max(x, label.box.left), label.box.right), min(max(y, label.box.top), label.box.bottom))
                self.board.line([(x, y), end], INK, 0.5)
            self.board.text(label.baseline, text)


def draw(experiment: Experiment, groups: Sequence[Group], grid: Grid) -> dict[str, Board]:
    """The figure for each data set; none where there is nothing to show."""
    drawings: dict[str, Callable[[Experiment, Group, Grid], Board | None]] = {
        "tradeoff": _tradeoff,
        "curve": _curve,
        "speed": _speed,
        "inference": _inference,
    }
    if experiment.kind not in drawings:
        return {}
    boards = {group.dataset: drawings[experiment.kind](experiment, group, grid) for group in groups}
    return {dataset: board for dataset, board in boards.items() if board is not None}


def _title(experiment: Experiment, group: Group) -> str:
    return f"{experiment.title} ({group.dataset})"


def _tradeoff(experiment: Experiment, group: Group, grid: Grid) -> Board | None:
    """Accuracy against FLOPs, as a share of the first row's: so short runs and the paper's fit into one picture."""
    ours = _pairs(experiment.rows, grid, group, "FLOPs", "Class-IL")
    theirs = _pairs(experiment.rows, grid, group, of_paper("FLOPs", group), of_paper("Class-IL", group))
    dense = experiment.rows[0].label
    if not ours or any(points[0][0] != dense for points in (ours, theirs) if points):
        return None  # there is nothing to relate the others to
    relative = [[(x / points[0][1], y, label) for label, x, y in points] for points in (ours, theirs) if points]
    everything = [point for points in relative for point in points]
    x = Axis.around("training FLOPs, dense = 1", [point[0] for point in everything], logarithmic=True)
    plot = Plot(_title(experiment, group), x, Axis.around("Class-IL, percent", [point[1] for point in everything]))
    for points, colour, filled in zip(relative, COLOURS, (True, False), strict=False):
        plot.board.line([plot.at(one[0], one[1]) for one in points], colour, dashed=not filled)
        for across, up, _ in points:
            plot.board.circle(plot.at(across, up), 5, colour, filled)
    marks = [
        [(Box.around(plot.at(across, up), 5), _sparsity(label)) for across, up, label in points] for points in relative
    ]
    plot.label(marks[0], ("above", *BESIDE), [box for others in marks[1:] for box, _ in others])
    plot.legend([("here", COLOURS[0]), (_paper_name(group, "paper"), COLOURS[1])])
    return plot.board


def _curve(experiment: Experiment, group: Group, grid: Grid) -> Board | None:
    """A line for each series over the rows' x; a row without a series is a level to compare with."""
    values = {row.label: grid.value(row.label, group.dataset, "Class-IL") for row in experiment.rows}
    known = {label: value for label, value in values.items() if value.mean is not None}
    if not known:
        return None
    ends = [end for value in known.values() for end in _whiskers(value)]
    across = [row.x for row in experiment.rows if row.x is not None and row.series]
    plot = Plot(_title(experiment, group), Axis.around(experiment.x, across), Axis.around("Class-IL, percent", ends))
    series = list(dict.fromkeys(row.series for row in experiment.rows if row.series))
    colours = [COLOURS[place % len(COLOURS)] for place in range(len(series))]
    for name, colour in zip(series, colours, strict=True):
        rows = [row for row in experiment.rows if row.series == name and row.label in known and row.x is not None]
        points = [plot.at(row.x or 0.0, known[row.label].mean or 0.0) for row in rows]
        plot.board.line(points, colour, 2)
        for row, point in zip(rows, points, strict=True):
            plot.board.circle(point, 3.5, colour)
            low, high = (plot.at(row.x or 0.0, end) for end in _whiskers(known[row.label]))
            plot.board.line([low, high], colour)
    for row in experiment.rows:
        if not row.series and row.label in known:
            level = plot.at(plot.x.low, known[row.label].mean or 0.0)[1]
            plot.board.line([(LEFT, level), (WIDTH - RIGHT, level)], INK, dashed=True)
            plot.board.text((LEFT + 4, level - 4), row.label, "start")
    plot.legend(list(zip(series, colours, strict=True)))
    return plot.board


def _speed(experiment: Experiment, group: Group, grid: Grid) -> Board | None:
    """Accuracy against speed; the circle is the measured peak of memory."""
    points = _pairs(experiment.rows, grid, group, "times faster", "Class-IL")
    memory = {label: grid.value(label, group.dataset, "MB, peak").mean for label, _, _ in points}
    known = [peak for peak in memory.values() if peak is not None]
    if not points or not known:
        return None
    x = Axis.around("training step, times faster than dense", [across for _, across, _ in points])
    plot = Plot(_title(experiment, group), x, Axis.around("Class-IL, percent", [up for _, _, up in points]))
    series = list(dict.fromkeys(row.series for row in experiment.rows))
    colours = {row.label: COLOURS[series.index(row.series) % len(COLOURS)] for row in experiment.rows}
    marks = []
    for label, across, up in points:
        peak, place = memory[label] or 0.0, plot.at(across, up)
        radius = LARGEST * math.sqrt(peak / max(known))  # the circle's area is the memory
        plot.board.circle(place, radius, colours[label])
        marks.append((Box.around(place, radius), f"{_sparsity(label)}, {peak:.0f} MB"))
    plot.label(marks)
    plot.legend(list(dict.fromkeys((row.series, colours[row.label]) for row in experiment.rows)))
    return plot.board


def _inference(experiment: Experiment, group: Group, grid: Grid) -> Board | None:
    """Bars: here, and on the paper's phone."""
    names = ("ms", of_paper("ms", group))
    pairs = [[grid.value(row.label, group.dataset, name).mean for name in names] for row in experiment.rows]
    known = [value for values in pairs for value in values if value is not None]
    if not known:
        return None
    x, y = Axis("sparsity", -0.6, len(pairs) - 0.4), Axis("milliseconds", 0.0, 1.15 * max(known))
    plot = Plot(_title(experiment, group), x, y, [row.label for row in experiment.rows])
    width = plot.at(0.32, 0.0)[0] - plot.at(0.0, 0.0)[0]
    marks = []
    for number, values in enumerate(pairs):
        for side, value in enumerate(values):
            if value is not None:
                left, top = plot.at(number + 0.36 * (side - 1), value)
                plot.board.bar((left, top), (width, HEIGHT - BOTTOM - top), COLOURS[side])
                marks.append(
                    (Box(left, top, left + width, HEIGHT - BOTTOM), f"{value:.3g}" if value >= 1 else f"{value:.2g}")
                )
    plot.label(marks, ON_TOP)
    plot.legend([("here", COLOURS[0]), (_paper_name(group, "paper's phone"), COLOURS[1])])
    return plot.board


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
