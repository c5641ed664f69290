"""Where labels go in a drawing, so that none covers another, or a mark.

One label after the other takes the first free place around its mark: beside it, above, below, at its corners, then the
same further away; rather not one that is nearer to another mark, whose label it would seem to be. The order of the
places is fixed, so the same drawing comes out the same. If there is no free place at all, a label takes the one where
it covers least.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

LETTER = 6.5  # about how wide
ASCENT, DESCENT = 9.5, 3.0  # of a line of text around its baseline
GAP, STEP, FARTHEST = 4.0, 6.0, 200.0  # from the mark
Side = Literal["right", "left", "above", "below", "above_left", "above_right", "below_left", "below_right"]
BESIDE: tuple[Side, ...] = ("right", "left", "above", "below", "above_right", "above_left", "below_right", "below_left")
ON_TOP: tuple[Side, ...] = ("above", "above_left", "above_right")


@dataclass(frozen=True)
class Box:
    left: float
    top: float
    right: float
    bottom: float

    @classmethod
    def around(cls, centre: tuple[float, float], radius: float) -> "Box":
        return cls(centre[0] - radius, centre[1] - radius, centre[0] + radius, centre[1] + radius)

    def overlap(self, other: "Box") -> float:
        """The area that both cover."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.bottom, other.bottom) - max(self.top, other.top)
        return max(0.0, width) * max(0.0, height)

    def distance(self, x: float, y: float) -> float:
        return math.hypot(max(self.left - x, 0, x - self.right), max(self.top - y, 0, y - self.bottom))

    def holds(self, other: "Box") -> bool:
        return (
            self.left <= other.left
            and other.right <= self.right
            and self.top <= other.top
            and other.bottom <= self.bottom
        )


@dataclass(frozen=True)
class Label:
    text: str
    box: Box
    distance: float  # from its mark; where it is far, a line must lead to it

    def is_nearer_to(self, other: Box, mark: Box) -> bool:
        x, y = (self.box.left + self.box.right) / 2, (self.box.top + self.box.bottom) / 2
        return other.distance(x, y) < mark.distance(x, y)

    @property
    def baseline(self) -> tuple[float, float]:
        """The middle of it: for a text anchored in the middle."""
        return (self.box.left + self.box.right) / 2, self.box.bottom - DESCENT


def text_width(text: str) -> float:
    return LETTER * len(text)


def place_labels(
    marks: Sequence[tuple[Box, str]], area: Box, sides: Sequence[Side] = BESIDE, taken: Sequence[Box] = ()
) -> list[Label]:
    """A label for each mark, inside the area. `taken`: what else must not be covered."""
    obstacles = [*taken, *(mark for mark, _ in marks)]
    labels: list[Label] = []
    for mark, text in marks:
        places = list(_places(mark, text, sides))
        inside = [label for label in places if area.holds(label.box)] or places
        covered = [sum(label.box.overlap(one) for one in obstacles) for label in inside]
        free = [label for label, area_covered in zip(inside, covered, strict=True) if not area_covered]
        own = [label for label in free if not any(label.is_nearer_to(other, mark) for other, _ in marks)]
        label = next(iter([*own, *free]), inside[covered.index(min(covered))])
        labels.append(label)
        obstacles.append(label.box)
    return labels


def _places(mark: Box, text: str, sides: Sequence[Side]) -> Iterator[Label]:
    width, height = text_width(text), ASCENT + DESCENT
    distance = GAP
    while distance < FARTHEST:
        across = {
            "left": mark.left - distance - width,
            "middle": (mark.left + mark.right - width) / 2,
            "right": mark.right + distance,
            "flush_left": mark.right - width,
            "flush_right": mark.left,
        }
        up = {
            "above": mark.top - distance - height,
            "middle": (mark.top + mark.bottom - height) / 2,
            "below": mark.bottom + distance,
        }
        corners: dict[Side, tuple[str, str]] = {
            "right": ("right", "middle"),
            "left": ("left", "middle"),
            "above": ("middle", "above"),
            "below": ("middle", "below"),
            "above_left": ("flush_left", "above"),
            "above_right": ("flush_right", "above"),
            "below_left": ("flush_left", "below"),
            "below_right": ("flush_right", "below"),
        }
        for side in sides:
            column, line = corners[side]
            left, top = across[column], up[line]
            yield Label(text, Box(left, top, left + width, top + height), distance)
        distance += STEP
