"""The runs that somebody means who names run directories, or directories of runs."""

import json
from collections.abc import Sequence
from pathlib import Path

from sparcl.files import write_text

ORDER_FILE = ".order.json"  # of a sweep: the names of its runs in the order of its grid


def runs_in(directory: Path) -> list[Path]:
    """The directory if it is itself a run, otherwise the runs directly inside it."""
    if (directory / "settings.json").exists():
        return [directory]
    return in_order([path.parent for path in sorted(directory.glob("*/settings.json"))])


def named_runs(paths: Sequence[Path]) -> list[Path]:
    """What has no run in it stays in the list: whoever reads it says what is wrong with it."""
    return in_order([run for path in paths for run in runs_in(path) or [path]])


def in_order(runs: Sequence[Path]) -> list[Path]:
    """The runs of a sweep in the order of its grid, where they come in that of their names, which are hashes.

    That is how a shell lists them for `*`; whoever names them in another order wants that one.
    """
    ordered = list(runs)
    for parent in dict.fromkeys(run.parent for run in runs):
        places = [place for place, run in enumerate(runs) if run.parent == parent]
        siblings = [runs[place] for place in places]
        rank = {name: number for number, name in enumerate(_recorded_order(parent))}
        if siblings == sorted(siblings):
            siblings.sort(key=lambda run: rank.get(run.name, len(rank)))
        for place, run in zip(places, siblings, strict=True):
            ordered[place] = run
    return ordered


def record_order(directory: Path, runs: Sequence[Path]) -> None:
    write_text(directory / ORDER_FILE, json.dumps([run.name for run in runs], indent=0) + "\n")


def _recorded_order(directory: Path) -> list[str]:
    """None that can be read is none: it decides nothing but the order."""
    try:
        names = json.loads((directory / ORDER_FILE).read_bytes())
    except (OSError, ValueError, RecursionError):
        return []
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
