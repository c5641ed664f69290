"""What has to be said after a learning session that did not go well."""

from pathlib import Path

import numpy as np

from sparcl.device.forgetting import worse
from sparcl.device.history import HistoryEntry
from sparcl.device.judgement import Judgement
from sparcl.instant.left_out import LeftOut
from sparcl.instant.photo_doctor import FEW, few_text
from sparcl.instant.state import InstantState
from sparcl.wording import listed, quoted

MAX_NAMED = 3  # classes that another one is taken for


def cautions(entry: HistoryEntry, state: InstantState, directory: Path) -> list[str]:
    """`state`: after the session."""
    found = []
    before = entry.before
    names = worse(before, as_many(entry.after, before)) if before is not None else []
    if before is not None and names:
        left_out = LeftOut.of(state.kept, state.head.calibration)
        each = listed([_change(name, before, entry, state, left_out) for name in names])
        verb, them = ("is", "it") if len(names) == 1 else ("are", "them")
        found.append(
            f"{listed(names)} {verb} recognised less well than before this session: {each}. Perhaps some of the new "
            f"pictures show {them}, or look much like {them}. "
            f"Take the session back with: sparcl undo {quoted(directory)}"
        )
    few = [name for name, count in entry.kept.items() if count < FEW]
    if few:
        found.append(few_text(few))
    return found


def as_many(after: Judgement, before: Judgement) -> Judgement:
    """As if there were as many pictures as before, to compare like with like."""
    same = {name: counts for name, counts in after.held_out.items() if name in before.held_out}
    counts = {name: before.held_out[name][1] for name in same}
    return Judgement({name: (round(right * counts[name] / n), counts[name]) for name, (right, n) in same.items()}, None)


def _change(name: str, before: Judgement, entry: HistoryEntry, state: InstantState, left_out: LeftOut) -> str:
    """How many were right and are, and what the others are taken for: of the classes of this session, if any is."""
    (was, of), (now, count) = before.held_out[name], entry.after.held_out[name]
    change = f"{name} {100 * was / of:.0f}% before, {100 * now / count:.0f}% now"
    label = state.about.classes.index(name)
    row = left_out.confusion[label].copy()
    row[label] = 0
    taken = [int(other) for other in np.argsort(-row, kind="stable") if row[other]]
    learned = [other for other in taken if state.about.classes[other] in entry.pictures]
    shown = [f"{state.about.classes[other]} ({row[other]})" for other in (learned or taken)[:MAX_NAMED]]
    return f"{change}, now taken for {listed(shown)}" if shown else change
