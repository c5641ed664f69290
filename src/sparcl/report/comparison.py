"""Finished runs side by side: runs that differ only in their seed become one row, with mean and standard deviation."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from sparcl.checked import plain
from sparcl.errors import SparclError, UnfinishedError
from sparcl.learning.run_directory import RunDirectory
from sparcl.learning.settings import Settings, run_key
from sparcl.report.changes import SILENT, changed_settings, flattened, shared
from sparcl.report.sections import written_by

# Forward transfer is that of Task-IL: classes that were never seen are never predicted, so that of Class-IL would only
# say how good chance is.
CLASS_INCREMENTAL = ("Class-IL", "Task-IL", "forgetting", "BWT", "FWT (Task-IL)", "Class-IL raw", "Task-IL raw")
DOMAIN_INCREMENTAL = ("Domain-IL", "forgetting", "BWT", "FWT (Domain-IL)", "Domain-IL raw")
COSTS = ("seconds", "MB")


@dataclass(frozen=True)
class ComparisonRow:
    name: str
    settings: Settings  # of the first run; the others differ in the seed, and perhaps in threads
    threads: tuple[int, ...]  # of each run; 0: all cores
    seeds: tuple[int, ...]
    measured: dict[str, list[float | None]]  # by heading, a number for each seed
    changed: dict[str, Any]  # settings that are not those of the preset and its protocol
    warnings: tuple[str, ...] = ()

    @property
    def cells(self) -> dict[str, str]:
        return {heading: _cell(values, heading in COSTS) for heading, values in self.measured.items()}

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "seeds": list(self.seeds),
            "settings": plain(self.settings),
            "changed": self.changed,
            "warnings": list(self.warnings),
            "measures": {heading: _summary(values) for heading, values in self.measured.items()},
        }


def headings(rows: Sequence[ComparisonRow]) -> list[str]:
    """The columns that these rows need."""
    wanted = {heading for row in rows for heading in row.cells}
    accuracies = ("Class-IL", "Task-IL", "Domain-IL")  # these first
    return [h for h in dict.fromkeys((*accuracies, *CLASS_INCREMENTAL, *DOMAIN_INCREMENTAL, *COSTS)) if h in wanted]


def compare(paths: Sequence[Path], note: Callable[[SparclError], None] = lambda _: None) -> list[ComparisonRow]:
    """One row for each group of runs, in the order in which they were given.

    What is not a finished run is left out, and `note` is told; if nothing is left, that is an error.
    """
    groups: dict[str, list[_Finished]] = {}
    for path in paths:
        try:
            directory = RunDirectory.open(path)
            settings, result = directory.stored_settings(), directory.result()
            measured = measures(directory) if result is not None else {}
            found = _Finished(settings, path, _processor(directory), measured, directory.warnings())
            key = run_key(replace(settings, seed=0))
        except SparclError as error:
            note(error)
            continue
        if not found.measured:
            note(UnfinishedError(f"{path} is not finished.", "run", path))
            continue
        group = groups.setdefault(key, [])
        same = [other.path for other in group if other.settings.seed == settings.seed]
        if same:
            note(SparclError(f"{path} is the same run as {same[0]}, with the same seed."))
            continue
        group.append(found)
    if not groups:
        raise SparclError("There is no finished run to compare.")
    names = distinct_names([group[0].settings for group in groups.values()])
    return [_row(name, group) for name, group in zip(names, groups.values(), strict=True)]


@dataclass(frozen=True)
class _Finished:
    settings: Settings
    path: Path
    processor: str
    measured: dict[str, float | None]
    warnings: tuple[str, ...]


def _row(name: str, group: Sequence[_Finished]) -> ComparisonRow:
    by_heading = {heading: [run.measured[heading] for run in group] for heading in group[0].measured}
    if len({(run.settings.threads, run.processor) for run in group}) > 1:
        by_heading["seconds"] = [None] * len(group)  # a mean over different machines or threads would mean nothing
    settings, seeds = group[0].settings, tuple(run.settings.seed for run in group)
    threads = tuple(run.settings.threads for run in group)
    warnings = tuple(
        f"{name}, seed {run.settings.seed}: {line}" if len(group) > 1 else f"{name}: {line}"
        for run in group
        for line in run.warnings
    )
    return ComparisonRow(name, settings, threads, seeds, by_heading, changed_settings(settings), warnings)


def _processor(directory: RunDirectory) -> str:
    """Where a run was made, as far as it is known."""
    try:
        found = directory.environment()
    except SparclError:
        return ""
    return f"{found.get('processor')} {found.get('instruction_set')}"


def measures(directory: RunDirectory) -> dict[str, float | None]:
    """By heading. Snapshot means where the run has them; forward transfer only exists without."""
    result, costs = directory.result(), directory.costs()
    try:
        assert result is not None
        names = DOMAIN_INCREMENTAL if "domain_il" in result else CLASS_INCREMENTAL
        accuracies = _domain_measures(result) if "domain_il" in result else _class_measures(result)
        measures = (*accuracies, sum(costs["seconds"].values()), costs["peak_memory_mb"])
        numbers = [None if measure is None else float(measure) for measure in measures]
        if not all(number is None or math.isfinite(number) for number in numbers):
            raise ValueError("a measure is no number")
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise SparclError(f"{directory.path}/result.json or costs.json is damaged ({error!r}).") from error
    return dict(zip((*names, *COSTS), numbers, strict=True))


def _class_measures(result: dict[str, Any]) -> tuple[float | None, ...]:
    class_il = result.get("class_il_snapshots", result["class_il"])
    task_il = result.get("task_il_snapshots", result["task_il"])
    # What is forgotten is that of Class-IL; a method for Task-IL alone has only the other.
    judged = task_il if class_il["average"] is None else class_il
    return (
        class_il["average"],
        task_il["average"],
        judged["forgetting"],
        judged["bwt"],
        result["task_il"]["fwt"],
        result["class_il"]["average"],
        result["task_il"]["average"],
    )


def _domain_measures(result: dict[str, Any]) -> tuple[float | None, ...]:
    raw = result["domain_il"]
    smooth = result.get("domain_il_snapshots", raw)
    return smooth["average"], smooth["forgetting"], smooth["bwt"], raw["fwt"], raw["average"]


def distinct_names(all_settings: Sequence[Settings]) -> list[str]:
    """DATASET/METHOD, whatever else tells the rows apart, and what was changed in some of them only."""
    flat = [flattened(plain(settings)) for settings in all_settings]
    short = [short_name(settings) for settings in all_settings]
    changed = [changed_settings(settings) for settings in all_settings]
    everywhere = shared(changed)
    details = []
    for name, values, own in zip(short, flat, changed, strict=True):
        alike = [other for other, other_name in zip(flat, short, strict=True) if other_name == name]
        differing = [
            key
            for key in values
            if not key.startswith(SILENT)
            and (any(other.get(key) != values[key] for other in alike) or (key in own and key not in everywhere))
        ]
        details.append([f" {key.removeprefix('method.')}={values[key]}" for key in differing])
    # Four are enough to read, if they tell the rows apart.
    for count in range(4, max(map(len, details), default=0) + 1):
        names = [name + "".join(some[:count]) for name, some in zip(short, details, strict=True)]
        if len(set(names)) == len({name + "".join(some) for name, some in zip(short, details, strict=True)}):
            return names
    return [name + "".join(some) for name, some in zip(short, details, strict=True)]


def short_name(settings: Settings) -> str:
    name = settings.method.name
    if settings.sparsifier.name != "none":
        name = f"{settings.sparsifier.name}-{name}-{100 * settings.sparsity:g}"
    return f"{settings.dataset}/{name}"


def _summary(values: list[float | None]) -> dict[str, Any]:
    known = [value for value in values if value is not None]
    whole = len(known) == len(values)
    return {
        "mean": statistics.mean(known) if whole else None,
        "std": statistics.stdev(known) if whole and len(known) > 1 else None,
        "values": values,
    }


def _cell(values: list[float | None], whole: bool) -> str:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return "-"
    text = f"{statistics.mean(known):.0f}" if whole else f"{statistics.mean(known):.2f}"
    if len(known) > 1 and not whole:
        text += f" ± {statistics.stdev(known):.2f}"
    return text


def markdown(rows: Sequence[ComparisonRow], command: str) -> str:
    """The table with what is needed to make it again: protocol, seeds, date, command."""
    columns = headings(rows)
    lines = [
        "| run | buffer | seeds | " + " | ".join(columns) + " |",
        "|---|---:|---:|" + "---:|" * len(columns),
    ]
    for row in rows:
        cells = [row.name, str(row.settings.buffer_size), ", ".join(map(str, row.seeds))]
        cells += [row.cells.get(column, "-") for column in columns]
        lines.append(f"| {' | '.join(cells)} |")
    threads = dict.fromkeys(str(count or "all") for row in rows for count in row.threads)
    protocol = [describe_protocol([row.settings for row in rows]), f"{' or '.join(threads)} threads"]
    if any(column.endswith("raw") for column in columns) and any(row.settings.evaluation.snapshots for row in rows):
        protocol.append("raw: the single evaluation after the last step, without recalibration")
    lines += ["", f"Protocol: {'; '.join(protocol)}.", ""]
    lines += [part for line in remarks(rows) for part in (line, "")]
    lines.append(written_by(command))
    return "\n".join(lines)


def remarks(rows: Sequence[ComparisonRow]) -> list[str]:
    """What a reader of the table must know: settings changed in all rows, results that cannot be trusted."""
    everywhere = shared([row.changed for row in rows])
    changes = ", ".join(f"{key}={value}" for key, value in everywhere.items())
    first = [f"Changed from the preset{'' if len(rows) == 1 else ' in all rows'}: {changes}."] if everywhere else []
    return [*first, *(f"Warning: {line}" for row in rows for line in row.warnings)]


def describe_protocol(all_settings: Sequence[Settings]) -> str:
    """What runs share, in words; where they differ, each value is named once."""
    each = partial(_each, all_settings)
    parts = [
        f"{each(lambda s: s.dataset)} ({each(lambda s: s.protocol)})",
        f"{each(lambda s: s.model)} of width {each(lambda s: s.width)}",
        f"{each(lambda s: s.data.tasks or 'all')} tasks",
        f"{each(lambda s: s.epochs)} epochs and {each(lambda s: s.data.images_per_task or 'all')} images a task",
        f"batch {each(lambda s: s.batch_size)}, replay batch {each(lambda s: s.replay_batch_size)}",
    ]
    snapshots = each(lambda s: s.evaluation.snapshots)
    if snapshots != "0":
        steps = each(lambda s: s.evaluation.snapshot_steps)
        calibrated = each(lambda s: "with" if s.evaluation.bn_recalibration else "without")
        parts.append(
            f"accuracies are means of {snapshots} snapshots over the last {steps} steps of a task, "
            f"{calibrated} BN recalibration"
        )
    return "; ".join(parts)


def _each(all_settings: Sequence[Settings], pick: Callable[[Settings], object]) -> str:
    return " or ".join(dict.fromkeys(str(pick(settings)) for settings in all_settings))
