"""What has to be said after a learning session that did not go well."""

from pathlib import Path

from sparcl.device.forgetting import worse
from sparcl.device.held_out import MIN_PICTURES
from sparcl.device.history import HistoryEntry
from sparcl.wording import counted, quoted

FEW_STEPS = 50
MAX_NAMED = 5


def cautions(entry: HistoryEntry, usual_epochs: int, directory: Path) -> list[str]:
    """One sentence or two for each thing that went wrong."""
    found = forgotten(entry, usual_epochs, directory)
    return ([found] if found else []) + _hardly_learned(entry)


def forgotten(entry: HistoryEntry, usual_epochs: int, directory: Path) -> str | None:
    """That classes known before became worse, which ones, and what to do."""
    before, after = entry.before, entry.after
    if before is None:
        return None
    names = worse(before, after)
    if not names:
        return None
    shown = [
        f"{name} (was right on {before.held_out[name][0]} of {before.held_out[name][1]}, now on "
        f"{after.held_out[name][0]})"
        for name in names[:MAX_NAMED]
    ]
    if len(names) > MAX_NAMED:
        shown.append(f"and {len(names) - MAX_NAMED} more")
    return (
        f"This learning session made classes worse that were known before: {', '.join(shown)}. "
        f"{_why(entry, usual_epochs)}Take it back with: sparcl undo {quoted(directory)}"
    )


def _why(entry: HistoryEntry, usual_epochs: int) -> str:
    """The first steps with a new class upset what is known; rehearsal repairs it in the steps that follow."""
    if entry.epochs < usual_epochs:
        return (
            f"It had {counted(entry.epochs, 'epoch')} instead of {usual_epochs}: too few to rehearse what the "
            "first steps upset. "
        )
    if entry.steps < FEW_STEPS:
        return (
            f"It had only {counted(entry.steps, 'step')}, too few to rehearse what the first ones upset: "
            "more pictures or more epochs help. "
        )
    return ""


def _hardly_learned(entry: HistoryEntry) -> list[str]:
    found = []
    for name, count in entry.pictures.items():
        missing = []
        if not entry.kept[name]:
            missing.append("none is kept for rehearsal, so the next learning session will forget it")
        if count < MIN_PICTURES and name not in entry.after.held_out:
            missing.append("none is held out, so how well it is known cannot be said")
        if missing:
            found.append(f"Of {counted(count, 'picture')} of {name} {' and '.join(missing)}. Give 20 or more.")
    return found
