"""One run of a set: its settings, and the directory that they name."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from sparcl.checked import Checked, check, setting
from sparcl.errors import SparclError
from sparcl.files import locked, make_directory
from sparcl.learning.position import Count
from sparcl.learning.run_directory import RunDirectory
from sparcl.learning.settings import Settings, run_key
from sparcl.options import NotNegative
from sparcl.report.comparison import short_name

PROGRESS_FILE = "progress.json"
# Everything but the checkpoints; the result comes last, because it makes the run a finished one.
ADOPTED = (
    *("costs.json", "environment.json", "metrics.jsonl", "stream.json", "confusion.json", "settings.json"),
    "result.json",
)


@dataclass(frozen=True)
class Trial:
    label: str
    settings: Settings
    weight: float = 1.0  # how much work it is, in any unit, to say how long all of them will take

    def directory(self, root: Path) -> RunDirectory:
        """Where it is run under `root`: a readable name, and the hash that tells it from all others."""
        chosen = self.settings
        name = f"{short_name(chosen).replace('/', '-')}-{chosen.protocol}-seed{chosen.seed}-{run_key(chosen)[:12]}"
        return RunDirectory(root / name)


class Progress(Checked, ignores_unknown=True):
    """How far a running trial is, as its worker tells it."""

    pid: int = 0
    host: str = ""
    place: str = "starting"
    total: Count = 0  # steps
    done: Count = 0
    resumed_at: Count = 0  # what was done before this process
    seconds: NotNegative = 0.0  # since it began or went on
    accuracy: dict[str, float] = setting(factory=dict)  # by kind, over the tasks so far


def progress_of(directory: RunDirectory) -> Progress | None:
    """What the worker has said last; None if it has said nothing (that can be read)."""
    try:
        return check(Progress, json.loads((directory.path / PROGRESS_FILE).read_bytes()))
    except (OSError, ValueError, RecursionError):
        return None


def adopt(trials: Iterable[Trial], root: Path, finished_runs: Iterable[Path]) -> list[tuple[Trial, Path]]:
    """Take over the results of finished runs whose settings are those of a trial; their checkpoints stay behind."""
    found = {}
    for path in finished_runs:
        directory = RunDirectory.open(path)
        if not directory.is_finished():
            raise SparclError(f"{path} is not finished, and only finished runs can be taken over.")
        stored = directory.settings()  # with the options that did not exist yet when it was made
        # A run stores the backend that it used; a trial leaves the choice open.
        found[run_key(stored)] = found[run_key(replace(stored, backend="auto"))] = path
    taken = []
    for trial in trials:
        source, target = found.get(run_key(trial.settings)), trial.directory(root)
        if source is not None and not target.is_finished():
            make_directory(target.path)
            with locked(target.path) as held:
                for name in (name for name in ADOPTED if (source / name).is_file()):
                    held.write_bytes(name, (source / name).read_bytes())
            taken.append((trial, source))
    return taken
