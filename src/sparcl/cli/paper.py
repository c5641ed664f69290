"""`sparcl paper`: the tables and figures of the paper, from runs made here."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from sparcl.cli import paper_output as output
from sparcl.cli.display import Notes, progress_bar
from sparcl.cli.run import ChangeOption, PluginOption
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
from sparcl.experiments import origin
from sparcl.experiments.estimate import Estimates
from sparcl.experiments.outcome import Value, grid, missing_seeds, warnings
from sparcl.experiments.prepared import EVERYTHING, ExperimentRequest, Prepared, prepare
from sparcl.experiments.speed import prediction_times, training_speeds
from sparcl.experiments.trial import adopt
from sparcl.learning.plugins import import_plugins
from sparcl.network.backend import available_cores
from sparcl.report.sections import check_section, replace_section, running_command, written_by

HELP = """Reproduce a table or figure of the paper, with the paper's numbers next to ours.

EXPERIMENT is table1, table2, table3, tableA1, tableA2, tableA3, fig1, fig3, fig4, fig5, all of them (all), or a TOML
file like theirs (docs/reproduce.md). Each cell is one run per seed. A run that another table already has is not run
again, and an interrupted one continues. Figures 4 and 5 also measure speed on this machine.

\b
sparcl paper table1 --protocol smoke                      # on the bundled digits, in minutes
sparcl paper all --protocol smoke                         # every table and figure
sparcl paper table2 --protocol reduced --dataset cifar10  # short training: hours
sparcl paper table3 --dry-run                             # what is finished, and how long the rest takes
sparcl paper table2 --protocol reduced --only "*DER++*90" --dataset tiny_imagenet
sparcl paper table3 --protocol reduced --into docs/results.md --section table3
sparcl paper fig4 --protocol reduced --threads 2 --jobs 1
"""


def paper(
    name: Annotated[str, typer.Argument(metavar="EXPERIMENT", help="table1 ... fig5, all, or a TOML file.")],
    protocol: Annotated[
        str,
        typer.Option(
            help="full: as in the paper. reduced: hours instead of weeks. smoke: the bundled digits, minutes."
        ),
    ] = "full",
    seeds: Annotated[int, typer.Option(min=0, help="How many seeds. 0: three as in the paper; one for smoke.")] = 0,
    dataset: Annotated[list[str] | None, typer.Option(help="Only this data set. Repeatable.")] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Only rows that match, for example '*DER++*'. Repeatable.")
    ] = None,
    change: ChangeOption = None,
    plugin: PluginOption = None,
    on: OnOption = "local",
    address: AddressOption = None,
    jobs: JobsOption = 0,
    threads: ThreadsOption = 1,
    memory: MemoryOption = 0,
    out: Annotated[Path, typer.Option(help="Directory for the runs and tables.")] = Path("runs/paper"),
    take: Annotated[
        list[Path] | None,
        typer.Option(
            "--adopt",
            help="Copy this finished run if its settings match (whichever backend it ran on). Repeatable.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would run, with an estimate.")] = False,
    into: Annotated[Path | None, typer.Option(help="A Markdown file to write the table into.")] = None,
    section: Annotated[str | None, typer.Option(help="The section of that file, marked <!-- begin NAME -->.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show only the result, no progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON and nothing else.")] = False,
) -> None:
    import_plugins(plugin)
    if (into is None) != (section is None):
        raise SparclError("--into and --section belong together.")
    if into is not None and name == EVERYTHING and not dry_run:
        raise SparclError("--into takes one table: give its name instead of all.")
    check_section(into, section or "")
    root, silent = out / "cells", quiet or as_json
    request = ExperimentRequest(protocol, seeds, dataset or [], only or [], change or [])
    with progress_bar(silent) as progress:
        estimates = Estimates(root, threads, progress)
        prepared = prepare(name, request, estimates)
    trials = [trial for one in prepared for trial in one.trials()]
    for trial, path in adopt(trials, root, take or []):
        if not silent:
            print(f"{trial.label}: taken from {path}", file=sys.stderr)
    if dry_run:
        jobs = jobs or max(1, available_cores() // threads)
        if name != EVERYTHING and into is None:
            print_plan(trials, root, estimates, jobs)
            return
        summary = output.summary({one.name: one.trials() for one in prepared}, root, estimates, jobs, threads)
        print(summary)
        if into is not None and section is not None:
            replace_section(into, section, f"{summary}\n\n{written_by(running_command())}")
        return
    if address is None:
        prepare_data(trials, root, silent, " Or choose another with --dataset, or --protocol smoke.")
    failed: list[str] = []
    if trials:
        pool = open_pool(on, jobs, threads, address, memory, plugin or [])
        failed = failures(run_all(trials, root, pool, silent))
    tables = {}
    for one in prepared:
        notes = Notes()
        for line in origin.stand_ins(one.groups):
            notes(line)
        measured = _speeds(one, request, plugin or [], threads, silent, notes)
        for line in (*missing_seeds(one.cells, root), *warnings(one.cells, root)):
            notes(line)
        table = grid(one.experiment, one.groups, one.cells, root, measured)
        below = origin.describe(one.cells, notes, running_command())
        files = output.write(one, table, out / f"{Path(one.name).stem}-{protocol}", below)
        tables[one.name] = output.as_json(table)
        if into is not None and section is not None:
            replace_section(into, section, files[0].read_text().rstrip())
        if not as_json:
            output.show(table, [*notes, f"Also written: {', '.join(map(str, files))}"])
    if as_json:
        print(json.dumps(tables if name == EVERYTHING else tables[name]))
    exit_after(failed)


paper.__doc__ = HELP


def _speeds(
    one: Prepared, request: ExperimentRequest, plugins: Sequence[Path], threads: int, silent: bool, notes: Notes
) -> dict[tuple[str, str], Value]:
    kind = one.experiment.kind
    if kind not in ("speed", "inference"):
        return {}
    notes(origin.measured_here(threads))
    with progress_bar(silent) as progress:
        if kind == "speed":
            return training_speeds(one.experiment, one.groups, one.cells, plugins, threads, notes, progress)
        return prediction_times(one.experiment, one.groups, request.protocol, request.changes, threads, notes, progress)
