"""What the benchmarks print for people."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from sparcl.bench import tables
from sparcl.bench.layers import LayerRow, totals
from sparcl.bench.machine import Machine
from sparcl.cli.display import print_table


def show(title: str, content: tables.Table, words: int = 0) -> None:
    """The first `words` columns are words, the others numbers."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for place, heading in enumerate(content.headings):
        table.add_column(heading, justify="left" if place < words else "right", no_wrap=True)
    for row in content.rows:
        table.add_row(*row)
    print_table(table)


def show_layers(rows: Sequence[LayerRow], what: str) -> None:
    for sparsity in dict.fromkeys(row.sparsity for row in rows):
        chosen = [row for row in rows if row.sparsity == sparsity]
        show(f"convolutions at sparsity {sparsity:g}: {what}", tables.layers(chosen, totals(chosen)), words=2)


def show_origin(machine: Machine, notes: Sequence[str]) -> None:
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print(f"{machine}; {machine.date}")
    for line in notes:
        console.print(line)
