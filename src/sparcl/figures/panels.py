"""Several line plots as one drawing, for documents."""

from collections.abc import Sequence

from sparcl.figures.drawing import Drawing
from sparcl.figures.legend import Entry, legend
from sparcl.figures.lines import HEIGHT, MARGINS, WIDTH, LinePlot
from sparcl.figures.marks import Group, Mark, Text

TITLE, LEGEND = 22, 26  # pixels above each plot, and below all of them
PLOTS_IN_A_ROW = 2


def panels(plots: Sequence[LinePlot]) -> Drawing:
    """Two in a row, with one legend: lines of the same name have the same series everywhere."""
    rows = -(-len(plots) // PLOTS_IN_A_ROW)
    width, height = WIDTH * min(len(plots), PLOTS_IN_A_ROW), (HEIGHT + TITLE) * rows + LEGEND
    marks: list[Mark] = []
    for place, plot in enumerate(plots):
        row, column = divmod(place, PLOTS_IN_A_ROW)
        inside = Group(plot.marks(), (0, TITLE))
        marks.append(
            Group([Text((2, 14), plot.title, "start", "heading"), inside], (column * WIDTH, row * (HEIGHT + TITLE)))
        )
    names = {line.name: Entry(line.name, line.series) for plot in plots for line in plot.lines}
    return Drawing(width, height, [*marks, *legend(list(names.values()), (MARGINS.left, height - 10))])
