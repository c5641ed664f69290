"""Marks as SVG: with classes, whose colours the style of a page decides, or with colours, for a file of its own."""

from collections.abc import Callable, Mapping, Sequence

from sparcl.figures.marks import Circle, Group, Mark, Path, Point, Rectangle, Segment, Text
from sparcl.figures.markup import Markup, element
from sparcl.figures.palette import LOOKS, OWN, dashes, file_attributes, series_class

Paint = Callable[[str, int], Mapping[str, str]]  # from a look and a series to attributes


def for_page(marks: Sequence[Mark]) -> list[Markup]:
    return [_written(mark, _classes) for mark in marks]


def for_file(marks: Sequence[Mark]) -> list[Markup]:
    """For programs that know nothing of style sheets too, as those that set a paper."""
    return [_written(mark, file_attributes) for mark in marks]


def label(text: str, x: float, y: float, anchor: str, class_: str = "tick", turn: str | None = None) -> Markup:
    """Text of a drawing that only a page has."""
    return element("text", text, x=x, y=y, text_anchor=anchor, class_=class_, transform=turn)


def _classes(look: str, series: int) -> dict[str, str]:
    own = OWN in (LOOKS[look].fill, LOOKS[look].stroke)
    return {"class": f"{look} {series_class(series)}" if own else look}


def _written(mark: Mark, paint: Paint) -> Markup:
    if isinstance(mark, Group):
        x, y = mark.shift
        return element("g", *(_written(one, paint) for one in mark.marks), transform=f"translate({x:g} {y:g})")
    looks = dict(paint(mark.look, mark.series))
    match mark:
        case Segment((x1, y1), (x2, y2)):
            return element("line", x1=x1, y1=y1, x2=x2, y2=y2, **looks)
        case Path():
            if own := dashes(mark.series):
                looks["stroke-dasharray"] = own
            lines = "".join(_stroke(points) for points in mark.strokes)
            return element("path", d=lines, **looks, stroke_linejoin="round", **mark.data)
        case Circle((x, y), radius):
            return element("circle", cx=x, cy=y, r=radius, **looks)
        case Rectangle((x, y), (width, height)):
            return element("rect", x=x, y=y, width=width, height=height, **looks)
        case Text((x, y)):
            return element("text", mark.text, x=x, y=y, text_anchor=mark.anchor, **looks)


def _stroke(points: Sequence[Point]) -> str:
    return "".join(f"{'L' if place else 'M'}{x:.1f} {y:.1f}" for place, (x, y) in enumerate(points))
