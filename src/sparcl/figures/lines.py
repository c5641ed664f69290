"""Line plots over a numeric axis.

A plot is drawn for a width of about 400 pixels: it fills a phone, and two or three are side by side elsewhere. Its
points are written into the lines (data-x, data-y), where a script can read them to show values under the pointer.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from sparcl.figures import svg
from sparcl.figures.axes import Axes, Margins
from sparcl.figures.marks import Circle, Mark, Path, Point, Segment
from sparcl.figures.markup import Markup, element
from sparcl.figures.scale import Axis, short

WIDTH, HEIGHT = 420, 250
MARGINS = Margins(left=40, right=10, top=30, bottom=42)
INSET = 8.0
MAX_MARKERS = 30  # a line of more points has no markers


@dataclass(frozen=True)
class Line:
    name: str
    x: Sequence[float]
    y: Sequence[float | None]  # None leaves a gap
    series: int = 0  # its colour
    names: Sequence[str] = ()  # of its points, where the number on the axis would not say it
    gaps: Sequence[int] = ()  # points that are not joined to those before


@dataclass(frozen=True)
class LinePlot:
    title: str
    x_label: str
    y_label: str  # with its unit
    lines: Sequence[Line]
    unit: str = ""  # put behind the values that are shown under the pointer
    y_range: tuple[float, float] | None = None  # that is always shown
    x_ticks: Sequence[tuple[float, str]] | None = None
    rules: Sequence[float] = field(default_factory=tuple)  # values of x with a vertical line

    def svg(self) -> Markup:
        """For a page."""
        return element(
            "svg",
            *svg.for_page(self.marks()),
            viewBox=f"0 0 {WIDTH} {HEIGHT}",
            class_="plot lines",
            role="img",
            aria_label=f"{self.title}: {self.y_label} against {self.x_label}",
            data_unit=self.unit,
            data_x_label=self.x_label,
        )

    def marks(self) -> list[Mark]:
        axes = self._axes
        rules = [
            Segment((axes.across(rule), axes.top), (axes.across(rule), axes.bottom), "rule") for rule in self.rules
        ]
        return [*axes.marks(), *rules, *(mark for line in self.lines for mark in self._draw(line))]

    @cached_property
    def _axes(self) -> Axes:
        values = [y for line in self.lines for y in line.y if y is not None]
        x = Axis.within(self.x_label, [x for line in self.lines for x in line.x], self.x_ticks)
        y = Axis.covering(self.y_label, [*values, *(self.y_range or ())])
        return Axes(WIDTH, HEIGHT, MARGINS, x, y, INSET)

    def _draw(self, line: Line) -> list[Mark]:
        names = line.names or [short(x) for x in line.x]
        known = [(x, y, name) for x, y, name in zip(line.x, line.y, names, strict=True) if y is not None]
        data = {
            "data-name": line.name,
            "data-x": json.dumps([round(self._axes.across(x), 1) for x, _, _ in known]),
            "data-y": json.dumps([y for _, y, _ in known]),
            "data-names": json.dumps([name for _, _, name in known]),
        }
        marked = known if len(known) <= MAX_MARKERS else []
        dots = [Circle(self._axes.at(x, y), 3, "dot", line.series) for x, y, _ in marked]
        return [Path(self._strokes(line), "stroke", line.series, data), *dots]

    def _strokes(self, line: Line) -> list[list[Point]]:
        strokes: list[list[Point]] = [[]]
        for place, (x, y) in enumerate(zip(line.x, line.y, strict=True)):
            if y is None or place in line.gaps:
                strokes.append([])
            if y is not None:
                strokes[-1].append(self._axes.at(x, y))
        return [stroke for stroke in strokes if stroke]
