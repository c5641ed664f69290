"""A single plot as a drawing of its own: a title, a legend, axes, and marks with names next to them."""

from collections.abc import Sequence

from sparcl.figures.axes import Axes, Margins
from sparcl.figures.drawing import Drawing
from sparcl.figures.labels import BESIDE, GAP, Box, Side, place_labels
from sparcl.figures.legend import Entry, legend
from sparcl.figures.marks import Circle, Mark, Path, Rectangle, Segment, Text
from sparcl.figures.scale import Axis

WIDTH, HEIGHT = 480, 356
MARGINS = Margins(left=62, right=22, top=74, bottom=46)


class Chart:
    def __init__(self, title: str, x: Axis, y: Axis, entries: Sequence[Entry]) -> None:
        self.axes = Axes(WIDTH, HEIGHT, MARGINS, x, y)
        self.marks: list[Mark] = [
            Text((2, 16), title, "start", "heading"),
            *legend(entries, (2, 36)),
            *self.axes.marks(),
        ]

    def line(self, points: Sequence[tuple[float, float]], series: int, look: str = "stroke") -> None:
        self.marks.append(Path([[self.axes.at(*point) for point in points]], look, series))

    def whisker(self, x: float, low: float, high: float, series: int) -> None:
        self.marks.append(Segment(self.axes.at(x, low), self.axes.at(x, high), "thin", series))

    def circle(self, x: float, y: float, radius: float, series: int, look: str = "area") -> Box:
        """Returns the room that it takes."""
        centre = self.axes.at(x, y)
        self.marks.append(Circle(centre, radius, look, series))
        return Box.around(centre, radius)

    def bar(self, left: float, right: float, y: float, series: int) -> Box:
        """Returns the room that it takes."""
        box = Box(self.axes.across(left), self.axes.up(y), self.axes.across(right), self.axes.bottom)
        size = (box.right - box.left, box.bottom - box.top)
        self.marks.append(Rectangle((box.left, box.top), size, "area", series))
        return box

    def level(self, y: float, name: str) -> None:
        """A dashed line from side to side."""
        self.marks.append(self.axes.level(y, "level"))
        self.marks.append(Text((self.axes.left + 4, self.axes.up(y) - 4), name, "start"))

    def label(
        self, marks: Sequence[tuple[Box, str]], sides: Sequence[Side] = BESIDE, taken: Sequence[Box] = ()
    ) -> None:
        """Name the marks, when all of them are drawn. A line leads to a name that is not next to its mark."""
        area = Box(self.axes.left, self.axes.top - 6, WIDTH - 2, self.axes.bottom - 1)
        for (mark, text), label in zip(marks, place_labels(marks, area, sides, taken), strict=True):
            if label.distance > GAP:
                x, y = (mark.left + mark.right) / 2, (mark.top + mark.bottom) / 2
                end = (min(max(x, label.box.left), label.box.right), min(max(y, label.box.top), label.box.bottom))
                self.marks.append(Segment((x, y), end, "leader"))
            self.marks.append(Text(label.baseline, text))

    def drawing(self) -> Drawing:
        return Drawing(WIDTH, HEIGHT, self.marks)
