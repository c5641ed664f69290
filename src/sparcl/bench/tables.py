"""Measurements as tables, with what is needed to measure again: machine, protocol, date, command."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from sparcl.bench.growth import GrowthBase, Point
from sparcl.bench.layers import LayerRow, Total
from sparcl.bench.machine import Machine
from sparcl.bench.memory import TITLES as MEMORY_TITLES
from sparcl.bench.versus import VersusRow
from sparcl.figures.lines import Line, LinePlot
from sparcl.figures.panels import panels
from sparcl.report.sections import running_command, written_by

TITLES = {
    "sparsity": "sparsity",
    "width": "width (channels of the first layer)",
    "batch": "batch (images)",
    "threads": "threads",
}


@dataclass(frozen=True)
class Table:
    """What is printed and what is written into documents, as text."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        lines = [f"| {' | '.join(self.headings)} |", "|" + "---:|" * len(self.headings)]
        return "\n".join(lines + [f"| {' | '.join(row)} |" for row in self.rows])


def with_origin(content: str, machine: Machine, protocol: str, notes: Sequence[str]) -> str:
    """Tables with what stands below them."""
    return "\n\n".join([content, f"{machine}. {protocol}", *notes, written_by(running_command())])


def rounds(count: int) -> str:
    return (
        f"Medians of {count} rounds in which all sides take turns, with quartiles in brackets; "
        "the ratio is that of the medians."
    )


def milliseconds(value: float | None, spread: tuple[float, float] | None = None) -> str:
    if value is None:
        return "-"
    digits = max(0, 2 - max(0, math.floor(math.log10(value)))) if value >= 1 else 3
    return f"{value:.{digits}f}" + (f" ({spread[0]:.{digits}f}-{spread[1]:.{digits}f})" if spread else "")


def ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def versus(rows: Sequence[VersusRow]) -> Table:
    headings = ["images", "batch", "sparsity", "ours ms", "dense fp32 ms", "variant", "ratio", "dense bf16 ms"]
    onnxruntime = any(row.onnxruntime_ms for row in rows)
    own_dense = any(row.own_speedup for row in rows)
    headings += ["onnxruntime ms", "ours / onnxruntime"] * onnxruntime
    return Table(
        headings + ["times faster than our dense"] * own_dense,
        [
            (
                f"{row.image_size}x{row.image_size}",
                str(row.batch),
                f"{row.sparsity:g}",
                milliseconds(row.native_ms, row.native_spread),
                milliseconds(row.dense_ms, row.dense_spread),
                row.dense_variant or "-",
                ratio(row.speedup),
                milliseconds(row.dense_bf16_ms, row.dense_bf16_spread),
                *[milliseconds(row.onnxruntime_ms, row.onnxruntime_spread), ratio(row.onnxruntime_share)] * onnxruntime,
                *[ratio(row.own_speedup)] * own_dense,
            )
            for row in rows
        ],
    )


def layers(rows: Sequence[LayerRow], sums: Sequence[Total]) -> Table:
    """Of one sparsity; the sums are below."""
    headings = ("layer", "pass", "from", "to", "size", "density", "ours ms", "GFLOP/s", "dense ms", "GFLOP/s", "ratio")
    cells: list[Sequence[str]] = [
        (
            row.layer,
            row.work,
            str(row.inputs),
            str(row.outputs),
            f"{row.size}x{row.size}",
            f"{row.density:.3f}",
            milliseconds(row.native_ms),
            f"{row.native_gflops:.1f}",
            milliseconds(row.dense_ms),
            "-" if row.dense_gflops is None else f"{row.dense_gflops:.1f}",
            ratio(row.speedup),
        )
        for row in rows
    ]
    for total in sums:
        ours, theirs = milliseconds(total.native_ms), milliseconds(total.dense_ms)
        cells.append(("all", total.work, *[""] * 4, ours, "", theirs, "", ratio(total.speedup)))
    return Table(headings, cells)


def memory(found: Mapping[str, Any]) -> Table:
    rows = []
    for role, title in MEMORY_TITLES.items():
        peak, idle = found[f"{role}_peak_mb"], found[f"{role}_idle_mb"]
        if peak is not None:
            rows.append((title, f"{peak:.0f}", f"{idle:.0f}", f"{peak / found['native_peak_mb']:.2f}"))
    return Table(("process", "peak MB", "before there is a network, MB", "times ours"), rows)


def by_factor(points: Sequence[Point]) -> dict[str, Table]:
    """A table for each factor that was varied."""
    tables = {}
    for factor, chosen in groupby(points, key=lambda point: point.factor):
        rows = [
            (
                f"{point.value:g}",
                milliseconds(point.row.native_ms, point.row.native_spread),
                milliseconds(point.row.dense_ms, point.row.dense_spread),
                ratio(point.row.speedup),
            )
            for point in chosen
        ]
        tables[factor] = Table((TITLES[factor], "ours ms", "dense fp32 ms", "ratio"), rows)
    return tables


def growth(points: Sequence[Point], base: GrowthBase, plot_name: str) -> str:
    """All of it as Markdown, with the plot on top."""
    fixed = f"{base.model}, {base.image_size}x{base.image_size} images, sparsity {base.sparsity:g}, "
    fixed += f"width {base.width}, batch {base.batch}, {base.threads} threads"
    parts = [
        f"![Time of a training step against sparsity, width, batch and threads]({plot_name})",
        f"Unless stated otherwise: {fixed}.",
    ]
    return "\n\n".join([*parts, *(table.markdown() for table in by_factor(points).values())])


def growth_plot(points: Sequence[Point]) -> str:
    plots = []
    for factor, chosen in groupby(points, key=lambda point: point.factor):
        of_panel = list(chosen)
        places = range(len(of_panel))  # at equal distances, whatever the values are
        lines = [Line("ours", places, [point.row.native_ms for point in of_panel])]
        if any(point.row.dense_ms is not None for point in of_panel):
            lines.append(Line("dense fp32", places, [point.row.dense_ms for point in of_panel], series=1))
        names = [(place, f"{of_panel[place].value:g}") for place in places]
        plots.append(LinePlot(TITLES[factor], factor, "ms a step", lines, "ms", (0, 0.001), names))
    return panels(plots).svg()
