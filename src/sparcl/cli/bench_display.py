"""What the benchmarks print for people."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from sparcl.bench.growth import Point
from sparcl.bench.layers import LayerRow, Total
from sparcl.bench.machine import Machine
from sparcl.bench.memory import TITLES as MEMORY_TITLES
from sparcl.bench.tables import milliseconds, ratio
from sparcl.bench.versus import Row
from sparcl.cli.display import print_table


def _table(title: str, left: Sequence[str], right: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for heading in left:
        table.add_column(heading, no_wrap=True)
    for heading in right:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def print_versus(rows: Sequence[Row], what: str) -> None:
    title = f"{what}: {rows[0].model} of width {rows[0].width}, milliseconds (quartiles)"
    right = ["images", "batch", "sparsity", "ours", "dense fp32", "variant", "ratio", "dense bf16"]
    onnxruntime = any(row.onnxruntime_ms for row in rows)
    table = _table(title, (), right + ["onnxruntime"] * onnxruntime)
    for row in rows:
        table.add_row(
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
    print_table(table)


def print_layers(rows: Sequence[LayerRow], sums: Sequence[Total], what: str) -> None:
    for sparsity in dict.fromkeys(row.sparsity for row in rows):
        title = f"convolutions at sparsity {sparsity:g}: {what}"
        right = ("from", "to", "size", "density", "ours ms", "GFLOP/s", "dense ms", "GFLOP/s", "ratio")
        table = _table(title, ("layer", "pass"), right)
        for row in rows:
            if row.sparsity == sparsity:
                table.add_row(
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
        table.add_section()
        for total in sums:
            if total.sparsity == sparsity:
                ours, theirs = milliseconds(total.native_ms), milliseconds(total.dense_ms)
                table.add_row("all", total.work, *[""] * 4, ours, "", theirs, "", ratio(total.speedup))
        print_table(table)


def print_memory(found: Mapping[str, Any], what: str) -> None:
    table = _table(f"peak of resident memory: {what}", ("process",), ("peak MB", "idle MB", "times ours"))
    for role, title in MEMORY_TITLES.items():
        peak, idle = found[f"{role}_peak_mb"], found[f"{role}_idle_mb"]
        if peak is not None:
            table.add_row(title, f"{peak:.0f}", f"{idle:.0f}", f"{peak / found['native_peak_mb']:.2f}")
    print_table(table)


def print_growth(points: Sequence[Point]) -> None:
    table = _table("a training step, milliseconds (quartiles)", ("factor",), ("value", "ours", "dense fp32", "ratio"))
    before = ""
    for point in points:
        if before and point.factor != before:
            table.add_section()
        table.add_row(
            point.factor if point.factor != before else "",
            f"{point.value:g}",
            milliseconds(point.row.native_ms, point.row.native_spread),
            milliseconds(point.row.dense_ms, point.row.dense_spread),
            ratio(point.row.speedup),
        )
        before = point.factor
    print_table(table)


def print_origin(machine: Machine, notes: Sequence[str]) -> None:
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print(f"{machine}; {machine.date}")
    for line in notes:
        console.print(line)
