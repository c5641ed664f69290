"""The state of a learner with a backbone: the pictures it keeps, and what follows from them.

A state in the learner's directory holds

    kept.*        the pictures (kept.py)
    head.*        weight, bias and means of the discriminant, ready to predict with
    upper.*       the upper part of the backbone, if it was trained further
    JSON          classes, backbone, calibration, history
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from sparcl.backbone import Backbone
from sparcl.checked import check, plain
from sparcl.device.history import HistoryEntry
from sparcl.device.judgement import Judgement
from sparcl.device.kinds import WITH_BACKBONE
from sparcl.instant.head import FORMAT, About, Head
from sparcl.instant.kept import Kept
from sparcl.instant.verdict import held_out
from sparcl.tensor_files import State, Tensors

if TYPE_CHECKING:
    from sparcl.instant.photo_doctor import Examination

HISTORY_KEPT = 1000


@dataclass(frozen=True)
class InstantState:
    """`first`: the oldest state to which may be gone back. What is older holds pictures that were forgotten."""

    about: About
    kept: Kept
    head: Head
    upper: Tensors = field(default_factory=dict)
    deepened: State | None = None  # what is known about the training of the upper part
    history: tuple[HistoryEntry, ...] = ()
    first: int = 0

    @staticmethod
    def empty(backbone: Backbone, size: int) -> "InstantState":
        kept = Kept.nothing(backbone.features)
        return InstantState(About((), backbone.name, backbone.digest, size), kept, Head.of(kept, 0))

    def changed(self, kept: Kept, unknown: float, **changes: Any) -> "InstantState":
        """With other pictures."""
        about = replace(self.about, classes=kept.classes)
        # A trained upper part knows the pictures that it was trained on too well to be judged by them.
        judged = held_out(kept.digests, kept.labels) if self.upper else None
        return replace(self, about=about, kept=kept, head=Head.of(kept, unknown, judged), **changes)

    def judgement(self) -> Judgement:
        """By class: of pictures that were left out one at a time, how many were right."""
        right = self.head.calibration.right
        return Judgement({name: right[label] for label, name in enumerate(self.about.classes) if right[label][1]}, None)

    def examined(self) -> "Examination":
        """What is odd about its pictures (photo_doctor.py)."""
        from sparcl.instant.photo_doctor import examine
        from sparcl.instant.verdict import held_out

        unseen = held_out(self.kept.digests, self.kept.labels) if self.upper else None
        return examine(self.kept, self.head.calibration, unseen)

    def with_entry(self, entry: HistoryEntry) -> "InstantState":
        return replace(self, history=(*self.history, entry)[-HISTORY_KEPT:])

    def to_tensors(self) -> tuple[Tensors, State]:
        about = self.about
        state: State = {
            "kind": WITH_BACKBONE,
            "format": FORMAT,
            "classes": list(about.classes),
            "backbone": about.backbone,
            "digest": about.digest,
            "size": about.size,
            "calibration": plain(self.head.calibration),
            "deepened": self.deepened,
            "history": plain(list(self.history)),
            "first": self.first,
        }
        upper = {f"upper.{name}": tensor for name, tensor in self.upper.items()}
        return {**self.kept.to_tensors(), **self.head.to_tensors(), **upper}, state

    @staticmethod
    def from_tensors(tensors: Mapping[str, NDArray[Any]], state: State, width: int) -> "InstantState":
        """Checked, as its parts are."""
        about = About.from_json(state)
        upper = {name.removeprefix("upper."): tensors[name] for name in tensors if name.startswith("upper.")}
        return InstantState(
            about,
            Kept.from_tensors(tensors, about.classes, width),
            Head.from_tensors(tensors, state, width),
            upper,
            check(dict[str, int] | None, state["deepened"]),  # type: ignore[arg-type]
            tuple(check(list[HistoryEntry], state["history"])),
            check(int, state["first"]),
        )


def is_instant(state: State) -> bool:
    return state.get("kind") == WITH_BACKBONE
