"""A drawing as a file of its own: SVG and PNG show the same."""

from collections.abc import Sequence
from dataclasses import dataclass

from sparcl.figures import png, svg
from sparcl.figures.marks import Mark
from sparcl.figures.markup import element

FONT_SIZE = 12


@dataclass(frozen=True)
class Drawing:
    width: float
    height: float
    marks: Sequence[Mark]

    def svg(self) -> str:
        written = element(
            "svg",
            element("rect", width=self.width, height=self.height, fill="white"),
            *svg.for_file(self.marks),
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {self.width:g} {self.height:g}",
            width=self.width,
            height=self.height,
            font_family="sans-serif",
            font_size=FONT_SIZE,
        )
        return written + "\n"

    def png(self) -> bytes:
        return png.painted(self.width, self.height, self.marks, FONT_SIZE)
