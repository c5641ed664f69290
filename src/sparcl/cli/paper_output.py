"""What `sparcl paper` prints and writes."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich import box
from rich.table import Table

from sparcl.cli.display import print_table
from sparcl.cli.trials_display import duration
from sparcl.experiments import formats
from sparcl.experiments.estimate import Estimates, wall_seconds
from sparcl.experiments.figures import draw
from sparcl.experiments.outcome import Grid
from sparcl.experiments.prepared import Prepared
from sparcl.experiments.trial import Trial
from sparcl.files import write_bytes, write_text
from sparcl.learning import environment


def write(one: Prepared, table: Grid, stem: Path, below: str) -> list[Path]:
    """The table in every format, Markdown first, and the figures."""
    contents: dict[str, str | bytes] = {
        ".md": f"{formats.markdown(table)}\n\n{below}\n",
        ".csv": formats.csv_text(table),
        ".tex": formats.latex(table),
    }
    drawings = draw(one.experiment, one.groups, table)
    for dataset, drawing in drawings.items():
        ending = f"-{dataset}" if len(drawings) > 1 else ""
        contents |= {f"{ending}.svg": drawing.svg(), f"{ending}.png": drawing.png()}
    files = {stem.with_name(stem.name + ending): content for ending, content in contents.items()}
    for path, content in files.items():
        write_bytes(path, content) if isinstance(content, bytes) else write_text(path, content)
    return list(files)


def show(table: Grid, below: Sequence[str]) -> None:
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
    for line in below:
        print(line)


def as_json(table: Grid) -> list[dict[str, object]]:
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


def summary(trials: Mapping[str, Sequence[Trial]], root: Path, estimates: Estimates, jobs: int, threads: int) -> str:
    """How many runs each experiment has, how many of them are new, and how long those take; as Markdown."""
    lines = ["| | runs | not in those above | finished | estimate |", "|---|---:|---:|---:|---:|"]
    seen: set[Path] = set()
    everything: list[float] = []
    for name, some in trials.items():
        own = {trial.directory(root).path: trial for trial in some}
        new = {path: trial for path, trial in own.items() if path not in seen}
        seen |= set(new)
        left = [trial for trial in new.values() if not trial.directory(root).is_finished()]
        seconds = [estimates.seconds(trial.settings) for trial in left]
        everything += seconds
        time = duration(wall_seconds(seconds, jobs)) if seconds else "-"
        lines.append(f"| {name} | {len(own)} | {len(new)} | {len(new) - len(left)} | {time} |")
    if len(trials) > 1:
        lines.append(f"| all | {len(seen)} | | | {duration(wall_seconds(everything, jobs))} |")
    each = "one thread" if threads == 1 else f"{threads} threads"
    return "\n".join([*lines, "", f"Estimated on {environment.processor()}: {jobs} runs at a time, {each} each."])
