"""Line plots as a file of their own, for documents: no background, and colours for light and dark pages."""

from collections.abc import Sequence

from sparcl.report.figures.lines import HEIGHT, LEFT, WIDTH, Line, LinePlot
from sparcl.report.figures.palette import SERIES, dashes, series_class
from sparcl.report.figures.text import label
from sparcl.report.markup import Markup, element

COLOURS = ("#2f81f7", "#d9822b", "#3fa45b", "#c0569b", "#a08a2c", "#8b6fe0", "#2fa3b8", "#808890")
GREY = "#808890"
TITLE, LEGEND = 22, 26  # pixels above each plot, and below all of them
PLOTS_IN_A_ROW = 2
NAME = 150  # pixels in the legend

STYLE = "".join(
    [
        f".tick,.axis,.title{{fill:{GREY}}}.title{{font-weight:bold}}",
        f".gridline,.rule{{stroke:{GREY};stroke-opacity:.3}}",
        ".stroke{fill:none;stroke:var(--series);stroke-width:2}.dot{fill:var(--series)}",
        *(f".series-{number}{{--series:{COLOURS[number]}}}" for number in range(SERIES)),
    ]
)


def svg_file(plots: Sequence[LinePlot]) -> str:
    """All plots, two in a row, with one legend: lines of the same name have the same series everywhere."""
    rows = -(-len(plots) // PLOTS_IN_A_ROW)
    width, height = WIDTH * min(len(plots), PLOTS_IN_A_ROW), (HEIGHT + TITLE) * rows + LEGEND
    panels = []
    for place, plot in enumerate(plots):
        row, column = divmod(place, PLOTS_IN_A_ROW)
        title = label(plot.title, 2, 14, "start", "title")
        inside = element("g", *plot.parts(), transform=f"translate(0 {TITLE})")
        panels.append(element("g", title, inside, transform=f"translate({column * WIDTH} {row * (HEIGHT + TITLE)})"))
    lines = {line.name: line for plot in plots for line in plot.lines}
    legend = [_entry(line, LEFT + NAME * place, height - 10) for place, line in enumerate(lines.values())]
    drawn = element(
        "svg",
        element("style", Markup(STYLE)),
        *panels,
        *legend,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        font_family="sans-serif",
        font_size=12,
    )
    return drawn + "\n"


def _entry(line: Line, x: float, y: float) -> Markup:
    stroke = element("line", x1=x, x2=x + 24, y1=y - 4, y2=y - 4, class_="stroke", stroke_dasharray=dashes(line.series))
    return element("g", stroke, label(line.name, x + 30, y, "start"), class_=series_class(line.series))
