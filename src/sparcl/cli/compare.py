"""`sparcl compare`: finished runs side by side."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from sparcl.cli.advice import advised
from sparcl.cli.display import print_table
from sparcl.errors import SparclError
from sparcl.report import comparison
from sparcl.report.named_runs import named_runs
from sparcl.report.sections import replace_section, running_command

HELP = """Compare finished runs. Runs that differ only in their seed become one row: mean ± standard deviation.

Settings that differ from the preset's are named: in the rows, or below the table if all rows share them.

\b
sparcl compare runs                                # all runs in a directory
sparcl compare runs/digits-*                       # some of them
sparcl compare runs --into docs/results.md --section reduced   # write the table into a document
"""

RunsArgument = Annotated[list[Path], typer.Argument(metavar="DIR", help="Run directories, or directories of runs.")]


def compare(
    runs: RunsArgument,
    into: Annotated[Path | None, typer.Option(help="A Markdown file to write the table into.")] = None,
    section: Annotated[str | None, typer.Option(help="The section of that file, marked <!-- begin NAME -->.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")] = False,
) -> None:
    if (into is None) != (section is None):
        raise SparclError("--into and --section belong together.")
    rows = comparison.compare(named_runs(runs), note=_left_out)
    if into is not None and section is not None:
        replace_section(into, section, comparison.markdown(rows, running_command()))
    if as_json:
        print(json.dumps([row.to_json() for row in rows]))
    else:
        print_rows(rows)


compare.__doc__ = HELP


def _left_out(error: SparclError) -> None:
    print(f"sparcl: Left out: {advised(error)}", file=sys.stderr)


def print_rows(rows: list[comparison.ComparisonRow]) -> None:
    """Only the columns that say something: raw accuracies repeat the others where there were no snapshots."""
    smoothed = any(row.settings.evaluation.snapshots for row in rows)
    silent = ("BWT", "FWT") if smoothed else ("BWT", "FWT", "Class-IL raw", "Task-IL raw", "Domain-IL raw")
    shown = [heading for heading in comparison.headings(rows) if not heading.startswith(silent)]
    table = Table(title="accuracy after all tasks, percent", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("run", no_wrap=True)
    table.add_column("seeds", justify="right", no_wrap=True)
    for heading in shown:
        short = heading.replace(" raw", "\nraw").replace("forgetting", "forgets").replace("seconds", "sec.")
        table.add_column(short, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(row.name, ",".join(map(str, row.seeds)), *(row.cells.get(heading, "-") for heading in shown))
    print_table(table)
    for line in comparison.remarks(rows):
        print(line)
