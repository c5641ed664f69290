"""Finished runs side by side: runs that differ only in their seed become one row, with mean and standard deviation."""

import datetime
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparcl.errors import SparclError
from sparcl.files import write_text
from sparcl.learning.run_directory import RunDirectory
from sparcl.learning.settings import Settings

HEADINGS = ("Class-IL", "Task-IL", "forgetting", "BWT", "FWT", "Class-IL raw", "Task-IL raw", "seconds", "MB")


@dataclass(frozen=True)
class Row:
    settings: Settings  # of the first run; the others differ in the seed
    seeds: tuple[int, ...]
    cells: tuple[str, ...]  # one for each heading


def compare(directories: Sequence[RunDirectory]) -> list[Row]:
    """One row for each group of runs, in the order in which they were given."""
    groups: dict[str, list[tuple[Settings, RunDirectory]]] = {}
    for directory in directories:
        if directory.result() is None:
            raise SparclError(
                f"{directory.path} is not finished. Continue it with: sparcl run --resume {directory.path}"
            )
        settings = directory.settings()
        key = settings.model_copy(update={"seed": 0}).model_dump_json()
        groups.setdefault(key, []).append((settings, directory))
    return [_row(group) for group in groups.values()]


def _row(group: list[tuple[Settings, RunDirectory]]) -> Row:
    measured = [_measures(directory) for _, directory in group]
    cells = tuple(_cell([run[number] for run in measured], whole=number >= 7) for number in range(len(HEADINGS)))
    return Row(group[0][0], tuple(settings.seed for settings, _ in group), cells)


def _measures(directory: RunDirectory) -> list[float | None]:
    """In the order of HEADINGS. Snapshot means where the run has them; forward transfer only exists without."""
    result, costs = directory.result(), directory.costs()
    assert result is not None
    try:
        class_il: dict[str, Any] = result.get("class_il_snapshots", result["class_il"])
        task_il: dict[str, Any] = result.get("task_il_snapshots", result["task_il"])
        return [
            class_il["average"],
            task_il["average"],
            class_il["forgetting"],
            class_il["bwt"],
            result["class_il"]["fwt"],
            result["class_il"]["average"],
            result["task_il"]["average"],
            sum(costs["seconds"].values()),
            costs["peak_memory_mb"],
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise SparclError(f"{directory.path}/result.json or costs.json is damaged: {error!r}.") from error


def _cell(values: list[float | None], whole: bool) -> str:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return "-"
    text = f"{statistics.mean(known):.0f}" if whole else f"{statistics.mean(known):.2f}"
    if len(known) > 1 and not whole:
        text += f" ± {statistics.stdev(known):.2f}"
    return text


def markdown(rows: Sequence[Row], command: str) -> str:
    """The table with what is needed to make it again: protocol, seeds, date, command."""
    lines = [
        "| method | buffer | seeds | " + " | ".join(HEADINGS) + " |",
        "|---|---:|---:|" + "---:|" * len(HEADINGS),
    ]
    for row in rows:
        seeds = ", ".join(map(str, row.seeds))
        lines.append(
            f"| {row.settings.method.name} | {row.settings.buffer_size} | {seeds} | " + " | ".join(row.cells) + " |"
        )
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    lines += ["", f"Protocol: {describe_protocol(rows)}.", "", f"Written on {today} by `{command}`."]
    return "\n".join(lines)


def describe_protocol(rows: Sequence[Row]) -> str:
    """What all rows share, in words; where rows differ, each value is named once."""

    def each(pick: Any) -> str:
        return " or ".join(dict.fromkeys(str(pick(row.settings)) for row in rows))

    parts = [
        f"{each(lambda s: s.dataset)} ({each(lambda s: s.protocol)})",
        f"{each(lambda s: s.model)} of width {each(lambda s: s.width)}",
        f"{each(lambda s: s.epochs)} epochs a task",
        f"{each(lambda s: s.data.images_per_task or 'all')} images a task",
        f"batch {each(lambda s: s.batch_size)}, replay batch {each(lambda s: s.replay_batch_size)}",
    ]
    snapshots = each(lambda s: s.evaluation.snapshots)
    if snapshots != "0":
        steps = each(lambda s: s.evaluation.snapshot_steps)
        calibrated = "with" if rows[0].settings.evaluation.bn_recalibration else "without"
        parts.append(
            f"accuracies are means of {snapshots} snapshots over the last {steps} steps, {calibrated} BN recalibration"
        )
        parts.append("raw: the single evaluation after the last step, without recalibration")
    return "; ".join(parts)


def replace_section(path: Path, section: str, content: str) -> None:
    """Put `content` between the marks of a section in a Markdown file; everything else stays."""
    begin, end = f"<!-- begin {section} -->", f"<!-- end {section} -->"
    try:
        text = path.read_text()
    except OSError as error:
        raise SparclError(f"{path} could not be read: {error.strerror}.") from error
    before, found_begin, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise SparclError(f"{path} has no section {section!r}: it needs the lines {begin} and {end}.")
    write_text(path, f"{before}{begin}\n{content}\n{end}{after}")
