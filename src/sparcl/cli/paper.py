"""`sparcl paper`: the tables and figures of the paper, from runs made here."""

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from sparcl.cli.bench_options import check_section
from sparcl.cli.display import print_table, progress_bar
from sparcl.cli.run import ChangeOption
from sparcl.cli.trials_options import (
    AddressOption,
    JobsOption,
    MemoryOption,
    OnOption,
    ThreadsOption,
    exit_after,
    failures,
    open_pool,
    prepare_data,
    print_plan,
    run_all,
)
from sparcl.errors import SparclError
from sparcl.experiments import experiment, formats, origin
from sparcl.experiments.estimate import Estimates
from sparcl.experiments.figures import draw
from sparcl.experiments.outcome import Cells, Grid, Value, grid
from sparcl.experiments.speed import prediction_times, training_speeds
from sparcl.experiments.trial import adopt
from sparcl.files import write_bytes, write_text
from sparcl.report.comparison import replace_section

HELP = """Make a table or figure of the paper anew, with the paper's numbers beside it.

EXPERIMENT is table1, table2, table3, tableA1, tableA2, tableA3, fig1, fig3, fig4, fig5, or a TOML file like those
(docs/reproduce.md). Every cell is some runs, one a seed; a run that another table has made already is taken from
there, one that was broken off goes on. Figures 4 and 5 also measure speed on this machine.

\b
sparcl paper table1 --protocol smoke                      # all of it on the embedded digits, in minutes
sparcl paper table2 --protocol reduced --dataset cifar10  # a short training: hours
sparcl paper table3 --dry-run                             # what is there already, and how long the rest takes
sparcl paper table2 --protocol reduced --only "*DER++*90" --dataset tiny_imagenet
sparcl paper table3 --protocol reduced --into docs/results.md --section table3
sparcl paper fig4 --protocol reduced --threads 2 --jobs 1
"""

PAPER_SEEDS = 3


def paper(
    name: Annotated[str, typer.Argument(metavar="EXPERIMENT", help="table1 ... fig5, or a TOML file.")],
    protocol: Annotated[
        str, typer.Option(help="full: the paper's. reduced: hours instead of weeks. smoke: the digits, minutes.")
    ] = "full",
    seeds: Annotated[int, typer.Option(min=0, help="How many. 0: three as in the paper; one for smoke.")] = 0,
    dataset: Annotated[list[str] | None, typer.Option(help="Only this data set; may be repeated.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Only rows that match, for example '*DER++*'.")] = None,
    change: ChangeOption = None,
    on: OnOption = "local",
    address: AddressOption = None,
    jobs: JobsOption = 0,
    threads: ThreadsOption = 1,
    memory: MemoryOption = 0,
    out: Annotated[Path, typer.Option(help="Where the runs and the tables are kept.")] = Path("runs/paper"),
    take: Annotated[
        list[Path] | None, typer.Option("--adopt", help="A finished run to use if its settings fit; may be repeated.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the cells and an estimate.")] = False,
    into: Annotated[Path | None, typer.Option(help="A Markdown file to write the table into.")] = None,
    section: Annotated[str | None, typer.Option(help="The section of that file, marked <!-- begin NAME -->.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only the result.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON and nothing else.")] = False,
) -> None:
    if (into is None) != (section is None):
        raise SparclError("--into and --section belong together.")
    check_section(into, section or "")
    chosen = experiment.load(name)
    if only:
        chosen = chosen.only(only)
    groups = experiment.groups(chosen, protocol, dataset or [])
    used = range(seeds or (1 if protocol == experiment.SMOKE else PAPER_SEEDS))
    root, silent = out / "cells", quiet or as_json
    estimates = Estimates(root, threads)
    cells = {
        (row.label, group.dataset): [
            experiment.weighted(trial, estimates.flops(trial.settings))
            for trial in experiment.trials(chosen, row, group, protocol, used, change or [])
        ]
        for group in groups
        for row in chosen.rows
    }
    trials = [trial for cell in cells.values() for trial in cell]
    for trial, path in adopt(trials, root, take or []):
        if not silent:
            print(f"{trial.label}: taken from {path}", file=sys.stderr)
    if dry_run:
        print_plan(trials, root, estimates, jobs, threads)
        return
    if address is None:
        prepare_data(trials, root, silent, " Or choose another with --dataset, or --protocol smoke.")
    failed: list[str] = []
    if trials:
        failed = failures(run_all(trials, root, open_pool(on, jobs, threads, address, memory), silent))
    notes = _Notes()
    measured = _speeds(chosen, groups, cells, protocol, threads, silent, notes)
    table = grid(chosen, groups, cells, root, measured)
    files = _write(table, chosen, groups, cells, out, f"{Path(name).stem}-{protocol}", notes)
    if into is not None and section is not None:
        replace_section(into, section, (files["md"]).read_text().rstrip())
    if as_json:
        print(json.dumps(_as_json(table)))
    else:
        _print(table)
        for line in notes:
            print(line)
        print(f"Also written: {', '.join(str(path) for path in files.values())}")
    exit_after(failed)


paper.__doc__ = HELP


class _Notes(list[str]):
    def __call__(self, line: str) -> None:
        if line not in self:
            self.append(line)


def _speeds(
    chosen: experiment.Experiment,
    groups: Sequence[experiment.Group],
    cells: Cells,
    protocol: str,
    threads: int,
    silent: bool,
    notes: _Notes,
) -> dict[tuple[str, str], Value]:
    if chosen.kind not in ("speed", "inference"):
        return {}
    notes(origin.measured_here(threads))
    with progress_bar(silent) as progress:
        if chosen.kind == "speed":
            return training_speeds(chosen, groups, cells, threads, progress)
        return prediction_times(chosen, groups, protocol, threads, notes, progress)


def _write(
    table: Grid,
    chosen: experiment.Experiment,
    groups: Sequence[experiment.Group],
    cells: Cells,
    out: Path,
    stem: str,
    notes: Sequence[str],
) -> dict[str, Path]:
    """The table in every format, and the figures, beside the cells."""
    files = {kind: out / f"{stem}.{kind}" for kind in ("md", "csv", "tex")}
    command = shlex.join(["sparcl", *sys.argv[1:]])
    write_text(files["md"], f"{formats.markdown(table)}\n\n{origin.describe(groups, cells, notes, command)}\n")
    write_text(files["csv"], formats.csv_text(table))
    write_text(files["tex"], formats.latex(table))
    boards = draw(chosen, groups, table)
    for dataset, board in boards.items():
        ending = f"-{dataset}" if len(boards) > 1 else ""
        files |= {f"{dataset}.{kind}": out / f"{stem}{ending}.{kind}" for kind in ("svg", "png")}
        write_text(files[f"{dataset}.svg"], board.svg())
        write_bytes(files[f"{dataset}.png"], board.png())
    return files


def _print(table: Grid) -> None:
    print(table.title)
    shown = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    shown.add_column("", no_wrap=True)
    several = len({heading.group for heading in table.headings}) > 1
    for heading in table.headings:
        name = heading.name.replace(", ", "\n")
        shown.add_column(f"{heading.group}\n{name}" if several else name, justify="right", no_wrap=True)
    for label, values in table.rows:
        shown.add_row(label, *(value.text() for value in values))
    print_table(shown)


def _as_json(table: Grid) -> list[dict[str, object]]:
    return [
        {
            "row": label,
            "values": [
                {"dataset": heading.group, "name": heading.name, "mean": value.mean, "std": value.deviation}
                for heading, value in zip(table.headings, values, strict=True)
            ],
        }
        for label, values in table.rows
    ]
