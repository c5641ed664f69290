"""A grid as Markdown, CSV and LaTeX."""

import csv
import io
import re
from itertools import groupby

from sparcl.experiments.outcome import Grid

POWER, POWER_OF_TEN = re.compile(r"e(-?)0*(\d+)"), r"\\cdot 10^{\1\2}"
LATEX_ESCAPES = str.maketrans({"%": r"\%", "_": r"\_", "&": r"\&", "#": r"\#"})


def markdown(grid: Grid) -> str:
    several = len({heading.group for heading in grid.headings}) > 1
    names = [f"{heading.group}: {heading.name}" if several else heading.name for heading in grid.headings]
    lines = ["| | " + " | ".join(names) + " |", "|---|" + "---:|" * len(names)]
    lines += [f"| {label} | {' | '.join(value.text() for value in values)} |" for label, values in grid.rows]
    return "\n".join(lines)


def csv_text(grid: Grid) -> str:
    """Numbers with all their digits: means and standard deviations in columns of their own."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = [f"{heading.group} {heading.name}" for heading in grid.headings]
    writer.writerow(["row", *(part for name in names for part in (name, f"{name} (std)"))])
    for label, values in grid.rows:
        numbers = [number for value in values for number in (value.mean, value.deviation)]
        writer.writerow([label, *("" if number is None else repr(number) for number in numbers)])
    return out.getvalue()


def latex(grid: Grid) -> str:
    """A tabular in the style of the booktabs package."""
    lines = [rf"% {grid.title}", r"\begin{tabular}{l" + "r" * len(grid.headings) + "}", r"\toprule"]
    spans = [(name, len(list(part))) for name, part in groupby(grid.headings, key=lambda heading: heading.group)]
    lines.append("".join(rf" & \multicolumn{{{width}}}{{c}}{{{_escaped(name)}}}" for name, width in spans) + r" \\")
    lines.append("".join(f" & {_escaped(heading.name)}" for heading in grid.headings) + r" \\")
    lines.append(r"\midrule")
    for label, values in grid.rows:
        written = [value.text(sign=r"\pm") for value in values]
        cells = ["--" if text == "-" else f"${POWER.sub(POWER_OF_TEN, text)}$" for text in written]
        lines.append(" & ".join([_escaped(label), *cells]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _escaped(text: str) -> str:
    return text.translate(LATEX_ESCAPES)
