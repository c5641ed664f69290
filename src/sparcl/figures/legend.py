"""What the colours of a drawing mean."""

from collections.abc import Sequence
from dataclasses import dataclass

from sparcl.figures.labels import text_width
from sparcl.figures.marks import Circle, Mark, Path, Point, Text

SWATCH = 22  # pixels


@dataclass(frozen=True)
class Entry:
    name: str
    series: int
    hollow: bool = False  # dashed, with rings for dots


def swatch(entry: Entry, place: Point = (0.0, 6.0)) -> list[Mark]:
    """A piece of line with a dot, from `place` to the right."""
    x, y = place
    line = Path([[(x + 1, y), (x + SWATCH - 1, y)]], "dashed" if entry.hollow else "stroke", entry.series)
    return [line, Circle((x + SWATCH / 2, y), 4, "ring" if entry.hollow else "dot", entry.series)]


def legend(entries: Sequence[Entry], place: Point) -> list[Mark]:
    """In a row, from `place` to the right."""
    x, y = place
    marks: list[Mark] = []
    for entry in entries:
        marks += [*swatch(entry, (x, y - 4)), Text((x + SWATCH + 6, y), entry.name, "start")]
        x += SWATCH + text_width(entry.name) + 24
    return marks
