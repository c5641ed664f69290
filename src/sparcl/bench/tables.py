"""Measurements as Markdown, with what is needed to make them again: machine, protocol, date, command."""

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from sparcl.bench.growth import Base, Point
from sparcl.bench.machine import Machine
from sparcl.bench.memory import TITLES as MEMORY_TITLES
from sparcl.bench.versus import Row
from sparcl.figures.lines import Line, LinePlot
from sparcl.figures.panels import panels

TITLES = {
    "sparsity": "sparsity",
    "width": "width (channels of the first layer)",
    "batch": "batch (images)",
    "threads": "threads",
}


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(headings)} |", "|" + "---:|" * len(headings)]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])


def origin(machine: Machine, protocol: str, notes: Sequence[str], command: str) -> str:
    """What stands below a table."""
    paragraphs = [f"{machine}. {protocol}", *notes, f"Written on {machine.date} by `{command}`."]
    return "\n\n".join(paragraphs)


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


def versus(rows: Sequence[Row]) -> str:
    headings = ["images", "batch", "sparsity", "ours ms", "dense fp32 ms", "variant", "ratio", "dense bf16 ms"]
    onnxruntime = any(row.onnxruntime_ms for row in rows)
    return table(
        headings + ["onnxruntime ms"] * onnxruntime,
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
                *[milliseconds(row.onnxruntime_ms, row.onnxruntime_spread)] * onnxruntime,
            )
            for row in rows
        ],
    )


def memory(found: Mapping[str, Any]) -> str:
    rows = []
    for role, title in MEMORY_TITLES.items():
        peak, idle = found[f"{role}_peak_mb"], found[f"{role}_idle_mb"]
        if peak is not None:
            rows.append((title, f"{peak:.0f}", f"{idle:.0f}", f"{peak / found['native_peak_mb']:.2f}"))
    return table(("process", "peak MB", "of it before there is a network", "times ours"), rows)


def growth(points: Sequence[Point], base: Base, plot_name: str) -> str:
    fixed = f"{base.model}, {base.image_size}x{base.image_size} images, sparsity {base.sparsity:g}, "
    fixed += f"width {base.width}, batch {base.batch}, {base.threads} threads"
    parts = [
        f"![Time of a training step against sparsity, width, batch and threads]({plot_name})",
        f"Where nothing else is said: {fixed}.",
    ]
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
        parts.append(table((TITLES[factor], "ours ms", "dense fp32 ms", "ratio"), rows))
    return "\n\n".join(parts)


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
