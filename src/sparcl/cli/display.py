"""What a person sees during a run."""

import contextlib
import math
import time
from collections.abc import Iterator

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from sparcl.data import Progress as DataProgress
from sparcl.data import Stream
from sparcl.learning.evaluation import Accuracies
from sparcl.learning.position import Position
from sparcl.learning.settings import Settings
from sparcl.methods import METHODS
from sparcl.metrics import AccuracyRow

# In a log file nothing is said of what is done at once, and then no more than it takes to see that it goes on.
SECONDS_UNTIL_FIRST_LINE = 5
SECONDS_BETWEEN_LINES = 30

KIND_NAMES = {"class_il": "Class-IL", "task_il": "Task-IL", "domain_il": "Domain-IL"}


class Notes(list[str]):
    """Lines to print below a table: what a reader must know about its numbers, each thing once."""

    def __call__(self, line: str) -> None:
        if line not in self:
            self.append(line)


class Display:
    """Follows a run: a progress bar with the time left, and a line after each task. Quiet: only warnings."""

    def __init__(self, stream: Stream, settings: Settings, quiet: bool) -> None:
        self._stream = stream
        self._settings = settings
        self._quiet = quiet
        self._console = Console(stderr=True)
        self._progress = bar_with_time_left(quiet)

    def __enter__(self) -> "Display":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def noted(self, text: str) -> None:
        if not self._quiet:
            self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def warned(self, text: str) -> None:
        self._console.print(f"sparcl: {text}", highlight=False, markup=False, soft_wrap=True)

    def started(self, total_steps: int, done_steps: int) -> None:
        self._bar = self._progress.add_task("judging the untrained network", total=total_steps, loss="")
        self._progress.update(self._bar, completed=done_steps)

    def stepped(self, position: Position, loss: float) -> None:
        place = f"task {position.task + 1}, epoch {position.epoch + 1}/{self._settings.epochs}"
        self._progress.update(self._bar, completed=position.total_steps, description=place, loss=f"loss {loss:.3f}")

    def evaluated(self, position: Position, accuracies: Accuracies) -> None:
        if self._quiet:
            return
        means = [f"{KIND_NAMES[kind]} {_mean(row)}" for kind, row in accuracies.items()]
        text = f"learned {self._learned(position)}: {', '.join(means)} over all tasks so far"
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _learned(self, position: Position) -> str:
        """The classes of the task that has ended, or what its images have been through."""
        at_once = METHODS[self._settings.method.name].learns_all_tasks_at_once
        chosen = slice(None) if at_once else slice(position.task, position.task + 1)
        if self._stream.domains:
            return ", ".join(self._stream.domains[chosen])
        labels = [label for task in self._stream.tasks[chosen] for label in task.classes]
        return ", ".join(self._stream.class_names[label] for label in labels)


def bar_with_time_left(quiet: bool) -> Progress:
    """For training: each of its tasks has a field `loss`."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[loss]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=console,
        disable=quiet or not console.is_terminal,  # a log file wants lines, not a bar
    )


@contextlib.contextmanager
def progress_bar(quiet: bool = False) -> Iterator[DataProgress]:
    """A bar for everything that reports its progress as (what, done, total); it vanishes when all is done.

    In a log file: a line for each thing that is done, and now and then one with how far it is.
    """
    console = Console(stderr=True)
    if not quiet and not console.is_terminal:
        yield _lines(console)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=quiet) as bar:
        task = bar.add_task("", total=None)

        def report(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total or None)

        yield report


def _lines(console: Console) -> DataProgress:
    begun, last, said = time.monotonic(), -math.inf, ""

    def report(what: str, done: int, total: int) -> None:
        nonlocal last, said
        now = time.monotonic()
        if now - begun < SECONDS_UNTIL_FIRST_LINE or (what == said and now - last < SECONDS_BETWEEN_LINES):
            return
        last, said = now, what
        place = f", {done:,} of {total:,}" if total else ""
        console.print(f"{what}{place}", highlight=False, markup=False, soft_wrap=True)

    return report


def _mean(row: AccuracyRow) -> str:
    known = [accuracy for accuracy in row if accuracy is not None]
    return f"{sum(known) / len(known):.1f}%" if known else "-"


def print_table(table: Table) -> None:
    """A table is never squeezed: where the terminal is too narrow its lines wrap, but no name and no number is cut.

    Names are shown as they are: "[red]" is a legal one.
    """
    needed = Console(width=1000, markup=False).measure(table).maximum
    Console(width=max(Console().width, needed), highlight=False, markup=False).print(table)
