"""The state of a learner with a backbone: the pictures it keeps, and what follows from them.

A state in the learner's directory holds

    kept.*        the pictures (kept.py)
    head.*        weight, bias and means of the discriminant, ready to predict with
    upper.*       the upper part of the backbone, if it was trained further
    JSON          classes, backbone, calibration, history
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparcl.backbone import Backbone
from sparcl.checked import check, plain
from sparcl.device.history import HistoryEntry
from sparcl.device.judgement import Judgement
from sparcl.instant.calibration import Calibration, calibrate
from sparcl.instant.discriminant import Discriminant
from sparcl.instant.kept import Kept
from sparcl.tensor_files import State, Tensors

KIND = "instant"
FORMAT = 1
HISTORY_KEPT = 1000


@dataclass(frozen=True)
class Head:
    """What predicting needs, in the precision it is stored with."""

    weight: NDArray[np.float32]
    bias: NDArray[np.float32]
    means: NDArray[np.float32]
    calibration: Calibration

    @staticmethod
    def of(kept: Kept, unknown: float) -> "Head":
        """A function of the pictures alone."""
        learned = kept.learned
        features, labels = kept.features[learned].astype(np.float64), kept.labels[learned]
        if not len(labels):
            none = np.zeros((0, features.shape[1]), np.float32)
            return Head(none, np.zeros(0, np.float32), none, Calibration())
        found = Discriminant.of(features, labels, len(kept.classes))
        calibration = calibrate(found, features, labels, unknown)
        numbers = (found.weight, found.bias, found.means)
        return Head(*(array.astype(np.float32) for array in numbers), calibration)

    def to_tensors(self) -> Tensors:
        return {"head.weight": self.weight, "head.bias": self.bias, "head.means": self.means}

    @staticmethod
    def from_tensors(tensors: Mapping[str, NDArray[Any]], state: State, width: int) -> "Head":
        """Checked: raises ValueError or KeyError for anything that no learner has written."""
        count = len(state["classes"])
        arrays = [tensors[f"head.{name}"] for name in ("weight", "bias", "means")]
        shapes = ((count, width), (count,), (count, width))
        for array, shape in zip(arrays, shapes, strict=True):
            if array.dtype != np.float32 or array.shape != shape or not np.isfinite(array).all():
                raise ValueError("what it predicts with does not fit its classes")
        calibration = Calibration.from_json(state["calibration"])
        if len(calibration.right) not in (0, count):
            raise ValueError("its calibration does not fit its classes")
        return Head(*arrays, calibration)


@dataclass(frozen=True)
class About:
    """What a state says about itself, without its pictures."""

    classes: tuple[str, ...]
    backbone: str
    digest: str  # of the backbone's file
    size: int

    @staticmethod
    def from_json(state: State) -> "About":
        """Checked: raises ValueError, KeyError or TypeError for anything that no learner has written."""
        if state["format"] != FORMAT:
            raise ValueError(f"it has format {state['format']!r}, and this version reads format {FORMAT}")
        classes = check(tuple[str, ...], state["classes"])
        if len(set(classes)) != len(classes) or not all(name.isprintable() for name in classes):
            raise ValueError("the classes are no list of names")
        size = check(int, state["size"])
        if not 16 <= size <= 1024:
            raise ValueError("its pictures have an impossible size")
        return About(classes, check(str, state["backbone"]), check(str, state["digest"]), size)


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
        return replace(self, about=about, kept=kept, head=Head.of(kept, unknown), **changes)

    def judgement(self) -> Judgement:
        """By class: of pictures that were left out one at a time, how many were right."""
        right = self.head.calibration.right
        return Judgement({name: right[label] for label, name in enumerate(self.about.classes) if right[label][1]}, None)

    def with_entry(self, entry: HistoryEntry) -> "InstantState":
        return replace(self, history=(*self.history, entry)[-HISTORY_KEPT:])

    def to_tensors(self) -> tuple[Tensors, State]:
        about = self.about
        state: State = {
            "kind": KIND,
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
            state["deepened"],
            tuple(check(list[HistoryEntry], state["history"])),
            check(int, state["first"]),
        )


def is_instant(state: State) -> bool:
    return state.get("kind") == KIND
