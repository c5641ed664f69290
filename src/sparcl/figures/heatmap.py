"""Tables of shades. Small ones have a rectangle and a number in each cell, large ones are one picture.

The shade is the opacity of a colour, so the same drawing fits a light and a dark page.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparcl.figures import raster
from sparcl.figures.markup import Markup, element
from sparcl.figures.palette import text_on
from sparcl.figures.scale import thinned
from sparcl.figures.svg import label

MAX_CELLS = 900  # drawn one by one
MAX_NUMBERS = 450  # with a number in each
TOP = 6  # pixels above the first row, where its label reaches
SHRINKS = 480  # pixels; up to this width it is made smaller where there is less room, a larger one scrolls
CHARACTER = 7.6  # pixels of a letter next to the axes; class names have wide ones


@dataclass(frozen=True)
class Heatmap:
    title: str
    values: NDArray[np.float64]  # NaN: empty
    rows: Sequence[str]
    columns: Sequence[str]
    row_title: str
    column_title: str
    shade: Callable[[float], float]  # from a value to an opacity, 0 to 1
    number: Callable[[float], str]  # in a cell
    tell: Callable[[int, int], str]  # the whole sentence for a cell, shown under the pointer
    missed: NDArray[np.bool_] | None = None  # cells in the other colour
    cell: tuple[float, float] = (38, 30)  # pixels
    readout: NDArray[np.int64] | None = None  # numbers that a large one shows under the pointer
    longest_label: int = 20  # characters
    largest: int = 560  # width of the cells together; where they would be wider they become narrower

    def svg(self) -> Markup:
        rows, columns = self.values.shape
        left = 30 + max([2, *(min(len(name), self.longest_label) for name in self.rows)]) * CHARACTER
        wide, high = (min(side, self.largest / max(1, n)) for side, n in zip(self.cell, (columns, rows), strict=True))
        turned = max((len(name) for name in self.columns), default=1) * CHARACTER > wide - 4 and not _numeric(
            self.columns
        )
        bottom = 28 + (min(self.longest_label, max(map(len, self.columns))) * CHARACTER if turned else 16)
        width, height = left + columns * wide + 8, rows * high + bottom
        cells = self._picture(left, wide, high) if rows * columns > MAX_CELLS else self._cells(left, wide, high)
        return element(
            "svg",
            *cells,
            *self._row_labels(left, high),
            *self._column_labels(left, wide, rows * high, turned),
            label(self.column_title, left + columns * wide / 2, height - 5, "middle", "axis"),
            label(self.row_title, 12, rows * high / 2, "middle", "axis", turn=f"rotate(-90 12 {rows * high / 2:g})"),
            viewBox=f"0 {-TOP} {width:.0f} {height + TOP:.0f}",
            width=f"{width:.0f}",
            class_="plot heat" if width <= SHRINKS else "plot heat large",
            role="img",
            aria_label=self.title,
        )

    def _cells(self, left: float, wide: float, high: float) -> list[Markup]:
        rows, columns = self.values.shape
        frame = element("rect", x=left, y=0, width=columns * wide, height=rows * high, class_="frame")
        parts = [] if self.missed is None else [frame]
        numbered = self.values.size <= MAX_NUMBERS and wide >= 20
        for row, column in np.ndindex(*self.values.shape):
            value = float(self.values[row, column])
            if np.isnan(value):
                continue
            opacity = self.shade(value)
            kind = "miss" if self.missed is not None and self.missed[row, column] else "hit"
            box = element(
                "rect",
                x=left + column * wide + 0.5,
                y=row * high + 0.5,
                width=wide - 1,
                height=high - 1,
                rx=2,
                fill_opacity=f"{opacity:.3f}",
                class_=kind,
            )
            inside = [box, element("title", self.tell(row, column))]
            if numbered and self.number(value):
                tone = text_on("miss" if kind == "miss" else "heat", opacity)
                x, y = left + (column + 0.5) * wide, (row + 0.5) * high + 4
                inside.append(label(self.number(value), x, y, "middle", f"cell {tone}"))
            parts.append(element("g", *inside))
        return parts

    def _picture(self, left: float, wide: float, high: float) -> list[Markup]:
        rows, columns = self.values.shape
        shares = np.vectorize(self.shade, otypes=[np.float64])(np.nan_to_num(self.values))
        shares[np.isnan(self.values)] = 0
        place: dict[str, float] = {"x": left, "y": 0, "width": columns * wide, "height": rows * high}
        told = self.values.round(2) if self.readout is None else self.readout
        picture = element(
            "image",
            **place,
            href=raster.heat(shares, self.missed),
            preserveAspectRatio="none",
            class_="pixels",
            data_rows=json.dumps(list(self.rows)),
            data_columns=json.dumps(list(self.columns)),
            data_values=json.dumps(told.tolist()).replace("NaN", "null"),
        )
        return [element("rect", **place, class_="frame"), picture]

    def _row_labels(self, left: float, high: float) -> list[Markup]:
        shown = thinned(len(self.rows), int(len(self.rows) * high / 14))
        return [label(self._cut(self.rows[place]), left - 6, (place + 0.5) * high + 4, "end") for place in shown]

    def _column_labels(self, left: float, wide: float, below: float, turned: bool) -> list[Markup]:
        needed = 14 if turned else max(map(len, self.columns)) * CHARACTER + 6
        parts = []
        for place in thinned(len(self.columns), int(len(self.columns) * wide / needed)):
            x = left + (place + 0.5) * wide
            turn = f"rotate(-90 {x + 4:.1f} {below + 8:.1f})" if turned else None
            if turned:
                parts.append(label(self._cut(self.columns[place]), x + 4, below + 8, "end", turn=turn))
            else:
                parts.append(label(self.columns[place], x, below + 16, "middle"))
        return parts

    def _cut(self, name: str) -> str:
        return name if len(name) <= self.longest_label else name[: self.longest_label - 1] + "…"


def _numeric(labels: Sequence[str]) -> bool:
    return all(name.replace(".", "").isdigit() for name in labels)
