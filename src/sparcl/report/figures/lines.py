"""Line plots over a numeric axis.

A plot is drawn for a width of about 400 pixels: it fills a phone, and two or three stand side by side elsewhere. What
its points are is written into the lines (data-x, data-y), where a script can read it to show values under the pointer.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from sparcl.report.figures.palette import dashes, series_class
from sparcl.report.figures.scale import short, thinned, ticks
from sparcl.report.figures.text import label
from sparcl.report.markup import Markup, element

WIDTH, HEIGHT = 420, 250
LEFT, RIGHT, TOP, BOTTOM = 40, 10, 30, 42  # around the axes
MOST_MARKERS = 30  # a line of more points has no markers
CHARACTER = 6.6  # pixels of a letter on an axis


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
        return element(
            "svg",
            *self.parts(),
            viewBox=f"0 0 {WIDTH} {HEIGHT}",
            class_="plot lines",
            role="img",
            aria_label=f"{self.title}: {self.y_label} against {self.x_label}",
            data_unit=self.unit,
            data_x_label=self.x_label,
        )

    def parts(self) -> list[Markup]:
        return [*self._axes(), *(part for line in self.lines for part in self._draw(line))]

    def _axes(self) -> list[Markup]:
        parts = []
        for tick in self._y_ticks:
            y = self._y(tick)
            parts.append(element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="gridline"))
            parts.append(label(short(tick), LEFT - 7, y + 4, "end"))
        for rule in self.rules:
            x = self._x(rule)
            parts.append(element("line", x1=x, x2=x, y1=TOP, y2=HEIGHT - BOTTOM, class_="rule"))
        labels = self._x_labels()
        widest = max((len(name) for _, name in labels), default=1) * CHARACTER + 10
        shown = thinned(len(labels), int((WIDTH - LEFT - RIGHT) / widest))
        parts += [label(labels[place][1], self._x(labels[place][0]), HEIGHT - BOTTOM + 17, "middle") for place in shown]
        parts.append(label(self.x_label, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "middle", "axis"))
        parts.append(label(self.y_label, 2, 12, "start", "axis"))  # level, for it is often long
        return parts

    def _draw(self, line: Line) -> list[Markup]:
        names = line.names or [short(x) for x in line.x]
        known = [(x, y, name) for x, y, name in zip(line.x, line.y, names, strict=True) if y is not None]
        strokes, pen = [], "M"
        for place, (x, y) in enumerate(zip(line.x, line.y, strict=True)):
            if y is None or place in line.gaps:
                pen = "M"
            if y is None:
                continue
            strokes.append(f"{pen}{self._x(x):.1f} {self._y(y):.1f}")
            pen = "L"
        colour = series_class(line.series)
        parts = [
            element(
                "path",
                d="".join(strokes),
                class_=f"stroke {colour}",
                stroke_dasharray=dashes(line.series),
                data_name=line.name,
                data_x=json.dumps([round(self._x(x), 1) for x, _, _ in known]),
                data_y=json.dumps([y for _, y, _ in known]),
                data_names=json.dumps([name for _, _, name in known]),
            )
        ]
        marked = known if len(known) <= MOST_MARKERS else []
        return parts + [
            element("circle", cx=self._x(x), cy=self._y(y), r=3, class_=f"dot {colour}") for x, y, _ in marked
        ]

    def _x_labels(self) -> Sequence[tuple[float, str]]:
        low, high = self._x_range
        inside = [(tick, short(tick)) for tick in ticks(low, high) if low <= tick <= high]
        return self.x_ticks if self.x_ticks is not None else inside

    @cached_property
    def _x_range(self) -> tuple[float, float]:
        values = [x for line in self.lines for x in line.x] + [x for x, _ in self.x_ticks or ()]
        return (min(values), max(values)) if values else (0.0, 1.0)

    @cached_property
    def _y_ticks(self) -> list[float]:
        values = [y for line in self.lines for y in line.y if y is not None] + list(self.y_range or ())
        return ticks(min(values), max(values)) if values else ticks(0, 1)

    def _x(self, value: float) -> float:
        low, high = self._x_range
        inner = 8  # so that the first and the last marker are whole
        share = (value - low) / (high - low) if high > low else 0.5
        return LEFT + inner + share * (WIDTH - LEFT - RIGHT - 2 * inner)

    def _y(self, value: float) -> float:
        marks = self._y_ticks
        share = (value - marks[0]) / (marks[-1] - marks[0])
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
