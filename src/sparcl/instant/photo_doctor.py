"""What is odd about the pictures that a learner keeps. Nothing is dropped because of it: people decide.

    duplicate       its features and another picture's point the same way: a copy, a frame of the same burst
    in two classes  the same, and the other one was learned as another class: only one can be right
    other class     without it, the learner is sure that it is of another class
    blurred         far less detail than usual for this learner
    empty           hardly any contrast at all: a wall, a lens cap
    few, uneven     a class with few pictures, or with far fewer than another one

The limits were chosen on real photos; docs/learner.md has the numbers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparcl.instant.calibration import Calibration, unit
from sparcl.instant.kept import Kept
from sparcl.instant.learning_curve import LearningCurve, curve_text, learning_curve, weakest
from sparcl.instant.left_out import LeftOut
from sparcl.wording import listed

AdviceKind = Literal["few", "uneven", "curve"]
Kind = Literal["in two classes", "other class", "duplicate", "blurred", "empty"]

SAME = 0.92  # cosine of features from which two pictures are nearly the same
SURE = 0.8  # confidence in another class from which a picture looks like it
MIN_JUDGED = 5  # pictures of a class: fewer do not know well enough what the class looks like
LEAST_CONTRAST = 0.03
LEAST_SHARPNESS = 0.25  # of the median of all pictures
FEW = 5
UNEVEN = 5  # times as many pictures
BLOCK = 1024  # pictures compared with all others at a time
MAX_QUICK = 2000  # pictures that are examined in passing, by `learn` and `status`


@dataclass(frozen=True)
class Finding:
    """One picture that somebody should look at. `other`: the picture that it resembles."""

    kind: Kind
    place: int  # among the pictures that are kept
    name: str  # the class that it was learned as
    reason: str
    other: int | None = None
    score: float = 0.0  # cosine, confidence, sharpness or contrast

    def to_json(self, kept: Kept) -> dict[str, Any]:
        other = {} if self.other is None else {"other": shown_digest(kept, self.other)}
        found = {"kind": self.kind, "class": self.name, "picture": shown_digest(kept, self.place)}
        return {**found, **other, "reason": self.reason, "score": self.score}


@dataclass(frozen=True)
class Advice:
    """About whole classes."""

    kind: AdviceKind
    text: str


@dataclass(frozen=True)
class Examination:
    findings: tuple[Finding, ...]  # the most serious kind first; the report numbers them in this order
    advice: tuple[Advice, ...]
    curve: LearningCurve | None
    left_out: LeftOut

    def to_json(self, kept: Kept) -> dict[str, Any]:
        curve = None
        if self.curve is not None:
            points = zip(self.curve.pictures, self.curve.accuracy, strict=True)
            curve = {
                "points": [{"pictures": pictures, "accuracy": accuracy} for pictures, accuracy in points],
                "with_twice_as_many": list(self.curve.expected),
                "would_help": self.curve.would_help,
            }
        findings = [{"number": n, **found.to_json(kept)} for n, found in enumerate(self.findings, 1)]
        return {"findings": findings, "advice": [advice.text for advice in self.advice], "learning_curve": curve}


def examine(kept: Kept, calibration: Calibration, unseen: NDArray[np.bool_] | None = None) -> Examination:
    """`unseen`: the pictures that the network was not trained on, if it was trained; the others say too much good of
    themselves."""
    left_out = LeftOut.of(kept, calibration)
    honest = left_out if unseen is None else left_out.only(unseen)
    found = [*duplicates(kept), *of_other_classes(kept, left_out), *of_poor_quality(kept)]
    order: Sequence[Kind] = ("in two classes", "other class", "duplicate", "empty", "blurred")
    found.sort(key=lambda finding: (order.index(finding.kind), -finding.score, finding.place))
    # A trained network has seen most pictures of each part, so its curve would be flatter than the truth.
    curve = learning_curve(kept, left_out) if unseen is None else None
    return Examination(tuple(found), tuple(_advice(kept, curve, honest)), curve, honest)


def duplicates(kept: Kept) -> Iterator[Finding]:
    """Each picture with the earlier one that it resembles most."""
    learned = np.flatnonzero(kept.learned)
    rows = unit(kept.features[learned].astype(np.float64)).astype(np.float32)
    for start in range(0, len(rows), BLOCK):
        block = rows[start : start + BLOCK]
        cosines = block @ rows[: start + len(block)].T
        cosines[np.triu_indices(len(block), start, cosines.shape[1])] = -1  # itself, and those after it
        same = kept.labels[learned[start : start + len(block)], None] == kept.labels[learned[: cosines.shape[1]]]
        for within in (True, False):
            alike = np.where(same == within, cosines, -1)
            nearest = alike.argmax(axis=1)
            for row in np.flatnonzero(alike[np.arange(len(block)), nearest] >= SAME):
                yield _duplicate(kept, int(learned[start + row]), int(learned[nearest[row]]), alike[row, nearest[row]])


def _duplicate(kept: Kept, place: int, other: int, cosine: float) -> Finding:
    kind: Kind = "duplicate" if kept.labels[place] == kept.labels[other] else "in two classes"
    where = f"picture {shown_digest(kept, other)}"
    reason = f"nearly the same as {where}"
    if kind == "in two classes":
        reason += f", which was learned as {kept.name_of(other)}: only one can be right"
    return Finding(kind, place, kept.name_of(place), reason, other, float(cosine))


def of_other_classes(kept: Kept, left_out: LeftOut) -> Iterator[Finding]:
    counts = np.bincount(kept.labels[kept.learned], minlength=len(kept.classes))
    known = (counts[left_out.labels] >= MIN_JUDGED) & (counts[left_out.answers] >= MIN_JUDGED)
    odd = (left_out.answers != left_out.labels) & (left_out.confidences >= SURE) & known
    for row in np.flatnonzero(odd):
        sure = float(left_out.confidences[row])
        like = kept.classes[left_out.answers[row]]
        name, place = kept.classes[left_out.labels[row]], int(left_out.places[row])
        reason = f"looks like {like} ({100 * sure:.0f}%), judged by all the others"
        yield Finding("other class", place, name, reason, score=sure)


def of_poor_quality(kept: Kept) -> Iterator[Finding]:
    sharpness, contrast = kept.quality[:, 0].astype(np.float64), kept.quality[:, 1].astype(np.float64)
    usual = float(np.median(sharpness)) if len(sharpness) else 0.0
    for place in np.flatnonzero(kept.learned):
        name = kept.name_of(int(place))
        if contrast[place] < LEAST_CONTRAST:
            reason = f"hardly anything to see: a contrast of {100 * contrast[place]:.1f}%"
            yield Finding("empty", int(place), name, reason, score=float(contrast[place]))
        elif sharpness[place] < LEAST_SHARPNESS * usual:
            share = sharpness[place] / usual
            reason = f"blurred: {100 * share:.0f}% of the usual sharpness"
            yield Finding("blurred", int(place), name, reason, score=float(share))


def _advice(kept: Kept, curve: LearningCurve | None, left_out: LeftOut) -> Iterator[Advice]:
    counts = {name: int(kept.of_class(name).sum()) for name in kept.classes}
    few = [name for name, count in counts.items() if count < FEW]
    if few:
        yield Advice("few", few_text(few))
    most = max(counts, key=lambda name: counts[name], default="")
    scarce = [name for name, count in counts.items() if count >= FEW and UNEVEN * count <= counts[most]]
    if scarce:
        shown = listed([f"{name} ({counts[name]:,})" for name in scarce])
        yield Advice("uneven", f"There are far fewer pictures of {shown} than of {most} ({counts[most]:,}).")
    if curve is not None:
        weak = weakest(left_out, kept.classes)
        first = f" Begin with {listed(weak)}." if curve.would_help and weak else ""
        yield Advice("curve", curve_text(curve) + first)


def few_text(names: Sequence[str]) -> str:
    return f"There are fewer than {FEW} pictures of {listed(names)}. That works, but 20 of each work far better."


def shown_digest(kept: Kept, place: int) -> str:
    """The name of a picture: it stays the same, whatever else is learned."""
    return f"{int(kept.digests[place]):016x}"


WORDS: dict[Kind, tuple[str, str]] = {
    "in two classes": ("was learned as two classes", "were learned as two classes"),
    "other class": ("looks like another class", "look like another class"),
    "duplicate": ("is nearly the same as another", "are nearly the same as others"),
    "empty": ("is empty", "are empty"),
    "blurred": ("is blurred", "are blurred"),
}


def in_short(found: Examination, without: AdviceKind | None = None) -> list[str]:
    """A few lines at most; `without` one kind of advice, where it was given already."""
    places: dict[Kind, set[int]] = {}
    for finding in found.findings:
        places.setdefault(finding.kind, set()).add(finding.place)
    parts = [f"{len(some):,} {WORDS[kind][len(some) > 1]}" for kind, some in places.items()]
    odd = [f"Pictures to look at: {listed(parts)}."] if parts else []
    return [*odd, *(advice.text for advice in found.advice if advice.kind != without)]
