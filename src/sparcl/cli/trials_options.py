"""Running a set of trials from the command line: the options that `sparcl paper` and `sparcl sweep` share."""

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich import box
from rich.table import Table

from sparcl.cli.display import print_table, progress_bar
from sparcl.cli.trials_display import TrialsDisplay, duration
from sparcl.data import load_stream
from sparcl.errors import SparclError
from sparcl.experiments.estimate import Estimates, wall_seconds
from sparcl.experiments.local import LocalPool
from sparcl.experiments.run_trials import Pool, TrialStatus, run_trials
from sparcl.experiments.trial import Trial
from sparcl.report.sections import running_command

Where = Literal["local", "ray"]
OnOption = Annotated[Where, typer.Option(help="Run trials as local processes, or on Ray.")]
AddressOption = Annotated[
    str | None,
    typer.Option(help="Address of a running Ray cluster, for example ray-head:6379 or auto. Default: start Ray here."),
]
JobsOption = Annotated[int, typer.Option(min=0, max=512, help="Trials at a time. 0: as many as the cores allow.")]
ThreadsOption = Annotated[int, typer.Option(min=1, max=512, help="Threads per trial.")]
MemoryOption = Annotated[
    int, typer.Option(min=0, help="MB that a trial requests from Ray. 0: estimated from its network and batches.")
]


def open_pool(
    on: Where, jobs: int, threads: int, address: str | None, memory: int, plugins: Sequence[Path] = ()
) -> Pool:
    if on == "ray":
        from sparcl.experiments.on_ray import RayPool

        return RayPool(jobs, threads, address, memory, plugins)
    if address is not None:
        raise SparclError("--address is for --on ray.")
    return LocalPool(jobs, threads, plugins)


def run_all(trials: Sequence[Trial], root: Path, pool: Pool, quiet: bool) -> list[TrialStatus]:
    """Run what is not finished. Ctrl-C and SIGTERM save everything and say how to continue."""
    with TrialsDisplay(quiet) as display, terminated_as_interrupted():
        try:
            return run_trials(trials, root, pool, display)
        except KeyboardInterrupt:
            pass
    say_how_to_continue()
    raise typer.Exit(130)


def say_how_to_continue() -> None:
    print(f"Stopped; nothing is lost. Continue with the same command: {running_command()}", file=sys.stderr)


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM is taken as Ctrl-C is."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def prepare_data(trials: Sequence[Trial], root: Path, quiet: bool, remedy: str = "") -> None:
    """Decode every data set once, before many processes want to; one that is missing is better known at once."""
    seen = set()
    for trial in trials:
        data = trial.settings.data
        wanted = (trial.settings.dataset, data.root, data.image_size, data.test_share)
        if wanted in seen or trial.directory(root).is_finished():
            continue
        seen.add(wanted)
        with progress_bar(quiet) as progress:
            try:
                load_stream(trial.settings.dataset, order_seed=trial.settings.seed, progress=progress, **vars(data))
            except SparclError as error:
                raise SparclError(f"{error}{remedy}") from error


def print_plan(trials: Sequence[Trial], root: Path, estimates: Estimates, jobs: int) -> None:
    """What is there, what would run, and how long that takes on this machine."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for heading in ("trial", "state", "alone"):
        table.add_column(heading, no_wrap=True)
    left, seen = [], set()
    for trial in trials:
        directory = trial.directory(root)
        if directory.path in seen:
            continue
        seen.add(directory.path)
        seconds = 0.0 if directory.is_finished() else estimates.seconds(trial.settings)
        state = "finished" if directory.is_finished() else "begun" if directory.has_begun() else "to run"
        table.add_row(trial.label, state, duration(seconds) if seconds else "-")
        left += [seconds] if seconds else []
    print_table(table)
    print(
        f"{len(seen)} trials, {len(seen) - len(left)} of them finished. The others take about "
        f"{duration(wall_seconds(left, jobs))} with {jobs} at a time."
    )


def failures(statuses: Sequence[TrialStatus]) -> list[str]:
    return [f"{one.trial.label}: {one.message}" for one in statuses if one.place == "failed"]


def exit_after(failed: Sequence[str]) -> None:
    """One that failed is said at the end, where it is seen."""
    if failed:
        for line in failed:
            print(f"sparcl: {line}", file=sys.stderr)
        raise typer.Exit(1)
