"""A small drawing board: what is drawn once can be written as SVG and as PNG."""

import io
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Literal

from PIL import Image, ImageDraw, ImageFont

Anchor = Literal["start", "middle", "end"]
Point = tuple[float, float]

INK, GREY = "#202428", "#8a929b"
FONT_SIZE = 12
MAGNIFIED = 3  # the PNG is drawn so much larger than the SVG's pixels
OVERSAMPLED = 2  # and larger still while it is drawn, for smooth edges


@dataclass(frozen=True)
class _Line:
    points: Sequence[Point]
    colour: str
    width: float = 1.0
    dashed: bool = False


@dataclass(frozen=True)
class _Circle:
    centre: Point
    radius: float
    colour: str
    filled: bool = True


@dataclass(frozen=True)
class _Bar:
    corner: Point  # upper left
    size: Point
    colour: str
    filled: bool = True


@dataclass(frozen=True)
class _Text:
    place: Point  # of the baseline
    text: str
    anchor: Anchor
    colour: str


@dataclass
class Board:
    width: int
    height: int
    _marks: list[_Line | _Circle | _Bar | _Text] = field(default_factory=list)

    def line(self, points: Sequence[Point], colour: str, width: float = 1.0, dashed: bool = False) -> None:
        self._marks.append(_Line(points, colour, width, dashed))

    def circle(self, centre: Point, radius: float, colour: str, filled: bool = True) -> None:
        self._marks.append(_Circle(centre, radius, colour, filled))

    def bar(self, corner: Point, size: Point, colour: str, filled: bool = True) -> None:
        self._marks.append(_Bar(corner, size, colour, filled))

    def text(self, place: Point, text: str, anchor: Anchor = "middle", colour: str = INK) -> None:
        self._marks.append(_Text(place, text, anchor, colour))

    def svg(self) -> str:
        size = f'viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="{FONT_SIZE}">'
        background = f'<rect width="{self.width}" height="{self.height}" fill="white"/>'
        return "\n".join([head, background, *map(_as_svg, self._marks), "</svg>", ""])

    def png(self) -> bytes:
        scale = MAGNIFIED * OVERSAMPLED
        picture = Image.new("RGB", (self.width * scale, self.height * scale), "white")
        draw, font = ImageDraw.Draw(picture), ImageFont.load_default(FONT_SIZE * scale)
        for mark in self._marks:
            _paint(draw, font, mark, scale)
        size = (self.width * MAGNIFIED, self.height * MAGNIFIED)
        out = io.BytesIO()
        picture.resize(size, Image.Resampling.LANCZOS).save(out, "PNG", optimize=True)
        return out.getvalue()


def _as_svg(mark: _Line | _Circle | _Bar | _Text) -> str:
    if isinstance(mark, _Line):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in mark.points)
        dash = ' stroke-dasharray="5 4"' if mark.dashed else ""
        return f'<polyline points="{points}" fill="none" stroke="{mark.colour}" stroke-width="{mark.width}"{dash}/>'
    if isinstance(mark, _Text):
        x, y = mark.place
        place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{mark.anchor}" fill="{mark.colour}"'
        return f"<text {place}>{escape(mark.text)}</text>"
    opacity = "0.75" if mark.filled else "0"
    paint = f'fill="{mark.colour}" fill-opacity="{opacity}" stroke="{mark.colour}"'
    if isinstance(mark, _Circle):
        return f'<circle cx="{mark.centre[0]:.1f}" cy="{mark.centre[1]:.1f}" r="{mark.radius:.1f}" {paint}/>'
    (x, y), (width, height) = mark.corner, mark.size
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" {paint}/>'


def _paint(
    draw: ImageDraw.ImageDraw, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, mark: object, scale: int
) -> None:
    if isinstance(mark, _Line):
        points = [(x * scale, y * scale) for x, y in mark.points]
        for start, end in itertools.pairwise(points):
            for part in _dashes(start, end, 5 * scale, 4 * scale) if mark.dashed else [(start, end)]:
                draw.line(part, mark.colour, round(mark.width * scale))
    elif isinstance(mark, _Circle):
        (x, y), r = mark.centre, mark.radius
        box = [(x - r) * scale, (y - r) * scale, (x + r) * scale, (y + r) * scale]
        draw.ellipse(box, _tint(mark.colour) if mark.filled else None, mark.colour, scale)
    elif isinstance(mark, _Bar):
        (x, y), (width, height) = mark.corner, mark.size
        box = [x * scale, y * scale, (x + width) * scale, (y + height) * scale]
        draw.rectangle(box, _tint(mark.colour) if mark.filled else None, mark.colour, scale)
    elif isinstance(mark, _Text):
        anchor = {"start": "ls", "middle": "ms", "end": "rs"}[mark.anchor]
        draw.text((mark.place[0] * scale, mark.place[1] * scale), mark.text, mark.colour, font, anchor)


def _tint(colour: str) -> tuple[int, int, int]:
    """The colour on white, as the SVG's opacity lets it look."""
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return tuple(round(0.75 * part + 0.25 * 255) for part in (red, green, blue))  # type: ignore[return-value]


def _dashes(start: Point, end: Point, drawn: float, gap: float) -> list[tuple[Point, Point]]:
    length = ((end[0] - start[0]) ** 2 + (end[1] - start[1]) ** 2) ** 0.5
    if not length:
        return []
    step = ((end[0] - start[0]) / length, (end[1] - start[1]) / length)

    def at(distance: float) -> Point:
        return start[0] + step[0] * distance, start[1] + step[1] * distance

    begins = [number * (drawn + gap) for number in range(int(length // (drawn + gap)) + 1)]
    return [(at(begin), at(min(length, begin + drawn))) for begin in begins]
