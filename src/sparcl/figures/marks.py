"""What a drawing is made of, as data: svg.py writes it, png.py paints it.

A mark says what it is (`look`: a gridline, a tick, a dot; palette.py lists them) and which series it belongs to, not
which colour it has: so the same marks fit a light page, a dark page and a file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Anchor = Literal["start", "middle", "end"]
Point = tuple[float, float]


@dataclass(frozen=True)
class Segment:
    start: Point
    end: Point
    look: str
    series: int = 0


@dataclass(frozen=True)
class Path:
    """Straight lines from point to point. The pen is lifted between two strokes."""

    strokes: Sequence[Sequence[Point]]
    look: str = "stroke"
    series: int = 0
    data: Mapping[str, str] = field(default_factory=dict)  # what a script on the page can read


@dataclass(frozen=True)
class Circle:
    centre: Point
    radius: float
    look: str = "dot"
    series: int = 0


@dataclass(frozen=True)
class Rectangle:
    corner: Point  # upper left
    size: Point
    look: str
    series: int = 0


@dataclass(frozen=True)
class Text:
    place: Point  # of its baseline
    text: str
    anchor: Anchor = "middle"
    look: str = "label"
    series: int = 0


@dataclass(frozen=True)
class Group:
    """Marks moved together."""

    marks: Sequence["Mark"]
    shift: Point


Mark = Segment | Path | Circle | Rectangle | Text | Group
