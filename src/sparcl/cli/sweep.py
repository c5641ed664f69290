"""`sparcl sweep`: many runs from one file."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from sparcl.cli.compare import print_rows
from sparcl.cli.display import print_table, progress_bar
from sparcl.cli.run import PluginOption
from sparcl.cli.trials_options import (
    AddressOption,
    JobsOption,
    MemoryOption,
    OnOption,
    ThreadsOption,
    Where,
    exit_after,
    failures,
    open_pool,
    prepare_data,
    print_plan,
    run_all,
    say_how_to_continue,
    terminated_as_interrupted,
)
from sparcl.errors import SparclError
from sparcl.experiments.estimate import Estimates
from sparcl.experiments.experiment import weighted
from sparcl.experiments.search import search as search_with_tune
from sparcl.experiments.sweep import Sweep
from sparcl.learning.plugins import import_plugins
from sparcl.network.backend import available_cores
from sparcl.report import comparison
from sparcl.report.named_runs import record_order

HELP = """Run every combination of values in a file, with every seed, in parallel; or search for good values.

FILE is TOML: a base run, a [grid] of lists, seeds (docs/sweeps.md). Each trial is a run directory named by the hash of
its settings, so nothing is lost to Ctrl-C, a crash or a lost machine: the same command continues.

\b
sparcl sweep alpha.toml                          # all cores of this machine, one thread per trial
sparcl sweep alpha.toml --jobs 1 --threads 2     # one after another, two threads each
sparcl sweep alpha.toml --dry-run                # what would run
sparcl sweep alpha.toml --on ray                 # on Ray, started here
sparcl sweep alpha.toml --on ray --address auto  # on a running cluster; --out must be on a shared disk
sparcl sweep alpha.toml --on ray --search        # Ray Tune searches the space in [search]
"""


def sweep(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A TOML file: base, grid, seeds.")],
    on: OnOption = "local",
    address: AddressOption = None,
    jobs: JobsOption = 0,
    threads: ThreadsOption = 1,
    memory: MemoryOption = 0,
    search: Annotated[
        bool,
        typer.Option("--search", help="Search the space in the file's [search] with Ray Tune, on validation images."),
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Directory for the trials. Default: runs/sweeps/NAME of the file.")
    ] = None,
    plugin: PluginOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would run.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show only the result, no progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON and nothing else.")] = False,
) -> None:
    import_plugins(plugin)
    planned = Sweep(file)
    root = out or Path("runs") / "sweeps" / file.stem
    if search and dry_run:
        raise SparclError("A search decides as it goes what to run: --dry-run can only show the runs of a [grid].")
    if search:
        _search(planned, on, root, (jobs, threads, address, memory), plugin or [], quiet or as_json, as_json)
        return
    if planned.file.search is not None and not planned.file.grid:
        raise SparclError(f"{file} describes a search: add --search --on ray.")
    with progress_bar(quiet or as_json) as progress:
        estimates = Estimates(root, threads, progress)
        trials = [weighted(trial, estimates.flops(trial.settings)) for trial in planned.trials()]
    if dry_run:
        print_plan(trials, root, estimates, jobs or max(1, available_cores() // threads))
        return
    if address is None:
        prepare_data(trials, root, quiet or as_json)
    record_order(root, [trial.directory(root).path for trial in trials])
    pool = open_pool(on, jobs, threads, address, memory, plugin or [])
    statuses = run_all(trials, root, pool, quiet or as_json)
    finished = [trial.directory(root) for trial in trials if trial.directory(root).is_finished()]
    if finished:
        rows = comparison.compare([directory.path for directory in finished], lambda text: print(text, file=sys.stderr))
        if as_json:
            print(json.dumps([row.to_json() for row in rows]))
        else:
            print_rows(rows)
            print(f"The runs are in {root}")
    exit_after(failures(statuses))


sweep.__doc__ = HELP


def _search(
    planned: Sweep,
    on: Where,
    root: Path,
    where: tuple[int, int, str | None, int],
    plugins: list[Path],
    silent: bool,
    as_json: bool,
) -> None:
    if on != "ray":
        raise SparclError("--search is done by Ray Tune: add --on ray.")
    with terminated_as_interrupted():
        try:
            found = search_with_tune(planned, root, *where, plugins, silent)
        except KeyboardInterrupt:
            say_how_to_continue()
            raise typer.Exit(130) from None
    if as_json:
        print(json.dumps([{"point": one.point, "accuracy": one.accuracy, "message": one.message} for one in found]))
    else:
        table = Table(title="accuracy on validation images, percent", box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("point", no_wrap=True)
        table.add_column("accuracy", justify="right", no_wrap=True)
        for one in found:
            table.add_row(one.name(), one.judgement())
        print_table(table)
        print(
            f"The runs are in {root}. They were judged on validation images: run the best again on all training images."
        )
    exit_after([f"{one.name()}: {one.message}" for one in found if one.accuracy is None])
