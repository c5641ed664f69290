"""From what somebody wants to be learned to a learning session that can be resumed: its pictures decoded, on the disk,
and divided into those to train on and those to judge by. What is odd about them is said."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparcl.data.source import Progress
from sparcl.device import held_out
from sparcl.device.base_state import BaseState
from sparcl.device.gather import Gathered, Source
from sparcl.device.learner_directory import LearnerDirectory
from sparcl.device.model import MAX_CLASSES
from sparcl.device.pending import LearnRequest, Pending
from sparcl.device.settings import LearnerSettings, PictureSettings
from sparcl.errors import SparclError
from sparcl.wording import counted

LONGEST_NAME = 100
Note = Callable[[str], None]


def prepare(
    directory: LearnerDirectory,
    base: BaseState,
    settings: LearnerSettings,
    classes: Mapping[str, Source],
    minutes: float | None,
    epochs: int | None,
    poll: Callable[[], None],
    progress: Progress | None,
    note: Note,
) -> Pending:
    """`poll` may raise to break it off."""
    new = [checked_name(name) for name in classes if name not in base.classes]
    names = (*base.classes, *new)
    if not classes:
        raise SparclError("There is nothing to learn: give at least one class.")
    if len(names) > MAX_CLASSES:
        raise SparclError(f"{directory.home.path} would have {len(names):,} classes; {MAX_CLASSES:,} are the most.")
    size = settings.pictures.size
    gathered = Gathered({names.index(name): pictures for name, pictures in classes.items()}, size, poll)
    checksum = directory.pending.write_images(gathered.blocks(progress))
    labels = np.array(gathered.labels, np.int64)
    for name in classes:
        if not (labels == names.index(name)).any():
            reason = f" The first problem: {gathered.skipped[0]}" if gathered.skipped else ""
            raise SparclError(f"There is no readable picture of {name!r}.{reason}")
    digests = np.array(gathered.digests, np.uint64)
    for line in gathered.notes:
        note(line)
    if gathered.copies:
        copies = ", ".join(f"{names[label]} {count:,}" for label, count in gathered.copies.items())
        note(f"Copies of the same picture are left out: {copies}.")
    _note_contradictions(base, names, digests, labels, note)
    held = _hold_out(base, names, digests, labels, settings.pictures)
    skipped = tuple(gathered.skipped)
    request = LearnRequest(base.number, names, len(new), size, len(labels), checksum, skipped, minutes, epochs)
    return directory.pending.write(request, labels, held)


def _note_contradictions(
    base: BaseState, names: tuple[str, ...], digests: NDArray[np.uint64], labels: NDArray[np.int64], note: Note
) -> None:
    """Pictures given under two names, or under another one than they are known by."""
    for one, other, count in held_out.in_two_classes(digests, labels):
        note(f"{counted(count, 'picture')} given as {names[one]!r} and as {names[other]!r}: only one can be right.")
    known = [(held_out.digests(images), known_labels) for images, known_labels in (base.held_out, base.rehearsed)]
    known_digests, known_labels = (np.concatenate(parts) for parts in zip(*known, strict=True))
    for given, was, count in held_out.known_elsewhere(digests, labels, known_digests, known_labels):
        note(
            f"{counted(count, 'picture')} given as {names[given]!r}, and known as {names[was]!r} already: "
            "only one can be right."
        )


def _hold_out(
    base: BaseState,
    names: tuple[str, ...],
    digests: NDArray[np.uint64],
    labels: NDArray[np.int64],
    settings: PictureSettings,
) -> NDArray[np.bool_]:
    images, known_labels = base.held_out
    held = held_out.select(
        digests, labels, settings.held_out, settings.held_out_most, held_out.digests(images), known_labels
    )
    for label in np.unique(labels):
        if held[labels == label].all() and label >= len(base.classes):
            raise SparclError(
                f"All pictures of {names[label]!r} are held out to judge by, and never trained on: give others."
            )
    if (~held).sum() < held_out.MIN_TO_LEARN:
        raise SparclError(
            f"{counted(int((~held).sum()), 'picture')} cannot be learned from: give at least "
            f"{held_out.MIN_TO_LEARN}, better 20 or more of each class."
        )
    return held


def checked_name(name: Any) -> str:
    if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > LONGEST_NAME:
        raise SparclError(f"{name!r} cannot be the name of a class. Give a short name of printable characters.")
    return name
