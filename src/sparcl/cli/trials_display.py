"""What a person sees while a set of trials runs: one table of those in progress, and how long all of it will take."""

from collections import Counter
from collections.abc import Sequence

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sparcl.cli.display import KIND_NAMES
from sparcl.experiments.run_trials import Place, TrialStatus
from sparcl.experiments.trial import Progress

MAX_ROWS = 24
# Who is shown first if not all can be.
ORDER: tuple[Place, ...] = ("running", "failed", "finished", "waiting", "cached")


class TrialsDisplay:
    """On a terminal a live table; in a log a line for each trial that has ended. Quiet: nothing."""

    def __init__(self, quiet: bool = False) -> None:
        self._quiet = quiet
        self._console = Console(stderr=True, highlight=False, markup=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._told: set[str] = set()

    def __enter__(self) -> "TrialsDisplay":
        if self._is_live():
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def _is_live(self) -> bool:
        return self._console.is_terminal and not self._quiet

    def show(self, statuses: Sequence[TrialStatus], seconds_left: float | None) -> None:
        if self._is_live():
            self._live.update(Group(_table(statuses), Text(_summary(statuses, seconds_left))), refresh=True)
        if self._quiet:
            return
        for status in statuses:
            line = _news(status)
            if line and line not in self._told:
                self._told.add(line)
                left = f"; {duration(seconds_left)} left" if seconds_left else ""
                done = sum(one.place in ("finished", "cached") for one in statuses)
                self._console.print(f"[{done}/{len(statuses)}] {line}{left}", soft_wrap=True)


def _news(status: TrialStatus) -> str:
    if status.place == "finished":
        return f"{status.trial.label}: finished{_accuracy(status.progress)}"
    if status.place == "failed":
        return f"{status.trial.label}: FAILED: {status.message}"
    if status.losses:
        return f"{status.trial.label}: {status.message}; it continues from its checkpoint ({status.losses})"
    return ""


def _table(statuses: Sequence[TrialStatus]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for heading in ("trial", "", "", "where", "so far", "left"):
        table.add_column(heading, no_wrap=True)
    ordered = sorted(statuses, key=lambda status: ORDER.index(status.place))
    shown = ordered[:MAX_ROWS] if len(ordered) > MAX_ROWS else statuses
    for status in shown:
        told = status.progress
        running = status.place == "running"
        table.add_row(
            status.trial.label,
            ProgressBar(total=1.0, completed=status.share, width=20),
            f"{status.share:.0%}",
            told.place if running else status.message or status.place,
            _accuracy(told).removeprefix(", "),
            _left(status) if running else "",
        )
    return table


def _left(status: TrialStatus) -> str:
    told = status.progress
    done = told.done - told.resumed_at
    return duration((told.total - told.done) * told.seconds / done) if done > 0 else ""


def _accuracy(told: Progress) -> str:
    known = {KIND_NAMES[kind]: value for kind, value in told.accuracy.items() if kind in KIND_NAMES}
    return "".join(f", {name} {value:.1f}%" for name, value in known.items())


def _summary(statuses: Sequence[TrialStatus], seconds_left: float | None) -> str:
    counts = Counter(status.place for status in statuses)
    words = [f"{counts[place]} {place}" for place in ORDER if counts[place]]
    left = "the time left is not known yet" if seconds_left is None else f"about {duration(seconds_left)} left"
    return f"{len(statuses)} trials: {', '.join(words)}; {left}. Ctrl-C keeps the work."


def duration(seconds: float) -> str:
    """In the two largest units."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, hours = round(seconds / 60), seconds / 3600
    if minutes < 60:
        return f"{minutes} min"
    if hours < 48:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    return f"{hours / 24:.1f} days"
