"""The frame of a plot: gridlines, numbers and titles, and where in it a value is."""

from dataclasses import dataclass

from sparcl.figures.labels import text_width
from sparcl.figures.marks import Mark, Point, Segment, Text
from sparcl.figures.scale import Axis, thinned


@dataclass(frozen=True)
class Margins:
    left: float
    right: float
    top: float
    bottom: float


@dataclass(frozen=True)
class Axes:
    width: float
    height: float
    margins: Margins
    x: Axis
    y: Axis
    inset: float = 0.0  # from the sides to the outermost values, so that their markers are whole

    @property
    def left(self) -> float:
        return self.margins.left

    @property
    def right(self) -> float:
        return self.width - self.margins.right

    @property
    def top(self) -> float:
        return self.margins.top

    @property
    def bottom(self) -> float:
        return self.height - self.margins.bottom

    def across(self, x: float) -> float:
        return self.left + self.inset + self.x.share(x) * (self.right - self.left - 2 * self.inset)

    def up(self, y: float) -> float:
        return self.bottom - self.y.share(y) * (self.bottom - self.top)

    def at(self, x: float, y: float) -> Point:
        return self.across(x), self.up(y)

    def level(self, y: float, look: str) -> Segment:
        """A horizontal line."""
        return Segment((self.left, self.up(y)), (self.right, self.up(y)), look)

    def marks(self) -> list[Mark]:
        found: list[Mark] = []
        for tick, name in self.y.ticks:
            found += [self.level(tick, "gridline"), Text((self.left - 7, self.up(tick) + 4), name, "end", "tick")]
        found.append(self.level(self.y.low, "baseline"))
        widest = max((text_width(name) for _, name in self.x.ticks), default=0.0) + 8
        for place in thinned(len(self.x.ticks), int((self.right - self.left) / widest)):
            tick, name = self.x.ticks[place]
            found.append(Text((self.across(tick), self.bottom + 17), name, "middle", "tick"))
        middle = (self.left + self.right) / 2
        found.append(Text((middle, self.height - 8), self.x.title, "middle", "axis"))
        # Level and at the left edge, because it is often long.
        found.append(Text((2, self.top - 18), self.y.title, "start", "axis"))
        return found
