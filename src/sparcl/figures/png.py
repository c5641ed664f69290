"""Marks painted as a PNG, for those who cannot show SVG."""

import io
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from PIL import Image, ImageColor, ImageDraw, ImageFont

from sparcl.figures.marks import Circle, Group, Mark, Path, Point, Rectangle, Segment, Text
from sparcl.figures.palette import LOOKS, Look, colour_in_file, dashes

MAGNIFIED = 3  # the PNG has this many pixels for each of the SVG's
OVERSAMPLED = 2  # and is painted larger still, for smooth edges
SCALE = MAGNIFIED * OVERSAMPLED
ANCHORS = {"start": "ls", "middle": "ms", "end": "rs"}
Ink = tuple[int, ...]  # red, green, blue and how opaque


def painted(width: float, height: float, marks: Sequence[Mark], font_size: int) -> bytes:
    picture = Image.new("RGB", (round(width * SCALE), round(height * SCALE)), "white")
    brush = _Brush(ImageDraw.Draw(picture, "RGBA"), ImageFont.load_default(font_size * SCALE))
    for mark in marks:
        brush.paint(mark)
    size = (round(width * MAGNIFIED), round(height * MAGNIFIED))
    file = io.BytesIO()
    picture.resize(size, Image.Resampling.LANCZOS).save(file, "PNG", optimize=True)
    return file.getvalue()


@dataclass(frozen=True)
class _Brush:
    draw: ImageDraw.ImageDraw
    font: ImageFont.FreeTypeFont | ImageFont.ImageFont
    shift: Point = (0.0, 0.0)

    def paint(self, mark: Mark) -> None:
        if isinstance(mark, Group):
            brush = _Brush(self.draw, self.font, (self.shift[0] + mark.shift[0], self.shift[1] + mark.shift[1]))
            for one in mark.marks:
                brush.paint(one)
            return
        look = LOOKS[mark.look]
        fill, stroke = _ink(look.fill, mark.series, look.opacity), _ink(look.stroke, mark.series, 1.0)
        match mark:
            case Segment():
                self._line([mark.start, mark.end], look, mark.series, look.dashes)
            case Path():
                for points in mark.strokes:
                    self._line(points, look, mark.series, dashes(mark.series) or look.dashes)
            case Circle((x, y), r):
                self.draw.ellipse([self._at(x - r, y - r), self._at(x + r, y + r)], fill, stroke, SCALE)
            case Rectangle((x, y), (width, height)):
                self.draw.rectangle([self._at(x, y), self._at(x + width, y + height)], fill, stroke, SCALE)
            case Text((x, y)):
                bold = SCALE // 3 if look.bold else 0
                where = self._at(x, y)
                self.draw.text(where, mark.text, fill, self.font, ANCHORS[mark.anchor], stroke_width=bold // 2)

    def _line(self, points: Sequence[Point], look: Look, series: int, pattern: str) -> None:
        ink = _ink(look.stroke, series, look.opacity)
        for start, end in itertools.pairwise(points):
            for first, last in _dashed(start, end, [float(length) for length in pattern.split()]):
                self.draw.line([self._at(*first), self._at(*last)], ink, max(1, round(look.width * SCALE)))

    def _at(self, x: float, y: float) -> Point:
        return (x + self.shift[0]) * SCALE, (y + self.shift[1]) * SCALE


def _ink(colour: str | None, series: int, opacity: float) -> Ink | None:
    if colour is None:
        return None
    return (*ImageColor.getrgb(colour_in_file(colour, series)), round(255 * opacity))


def _dashed(start: Point, end: Point, pattern: Sequence[float]) -> Iterator[tuple[Point, Point]]:
    """The parts of a line that are drawn; the pattern is drawn, left out, drawn, ... in pixels."""
    across, down = end[0] - start[0], end[1] - start[1]
    length = (across**2 + down**2) ** 0.5
    if not pattern or not length:
        yield start, end
        return
    at, is_drawn = 0.0, True
    for part in itertools.cycle(pattern):
        until = min(length, at + part)
        if is_drawn:
            first, last = (
                (start[0] + across * share, start[1] + down * share) for share in (at / length, until / length)
            )
            yield first, last
        at, is_drawn = until, not is_drawn
        if at >= length:
            return
