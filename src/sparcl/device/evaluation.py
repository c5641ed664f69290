"""How well a learner or a model file does on pictures whose classes are known.

A picture of a class that was never learned has a right answer too: `unknown`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sparcl.data.pictures import Prepare
from sparcl.data.source import Progress
from sparcl.device.gather import Pictures, decode_pictures, listed_pictures
from sparcl.device.held_out import digest
from sparcl.device.prediction import UNKNOWN, Prediction
from sparcl.device.reliability import auroc, calibration_error
from sparcl.errors import SparclError


@dataclass(frozen=True)
class Answer:
    """What was said about one picture. `truth`: its class; `name`: the answer, which may be "unknown"."""

    picture: str  # the file, or the place in the pictures that were given
    truth: str
    name: str
    likeliest: str  # the answer if it had to name a class
    confidence: float  # in that class
    familiarity: float  # how much the picture resembles what was learned: for telling known from unknown
    milliseconds: float


@dataclass(frozen=True)
class Evaluation:
    """The answers to pictures whose classes are known, and what follows from them.

    Accuracies and the calibration error are in percent, and None where there is no picture to measure them on.
    """

    classes: tuple[str, ...]  # that have been learned
    answers: tuple[Answer, ...]
    skipped: tuple[str, ...] = ()  # pictures that could not be read, and why
    learned: int = 0  # pictures that the learner has learned from: about those it knows too well

    @property
    def names(self) -> tuple[str, ...]:
        """The classes of the pictures, in the order in which they were given."""
        return tuple(dict.fromkeys(answer.truth for answer in self.answers))

    @property
    def known(self) -> tuple[Answer, ...]:
        """Answers to pictures of classes that have been learned."""
        return tuple(answer for answer in self.answers if answer.truth in self.classes)

    @property
    def never_learned(self) -> tuple[Answer, ...]:
        """Answers to pictures of classes that have not been learned: `unknown` is right."""
        return tuple(answer for answer in self.answers if answer.truth not in self.classes)

    @property
    def accuracy(self) -> float | None:
        """On pictures of learned classes; `unknown` is wrong there."""
        return _share(self.known, lambda answer: answer.name == answer.truth)

    @property
    def accuracy_by_class(self) -> dict[str, float]:
        """Of each learned class that has pictures."""
        found = {name: [answer for answer in self.known if answer.truth == name] for name in self.names}
        shares = {name: _share(answers, lambda answer: answer.name == answer.truth) for name, answers in found.items()}
        return {name: share for name, share in shares.items() if share is not None}

    @property
    def called_unknown(self) -> int:
        """Pictures of learned classes that were called unknown."""
        return sum(answer.name == UNKNOWN for answer in self.known)

    @property
    def never_learned_called_unknown(self) -> int:
        """Pictures of classes that were never learned, and called unknown."""
        return sum(answer.name == UNKNOWN for answer in self.never_learned)

    @property
    def confusion(self) -> dict[str, dict[str, int]]:
        """By true class, then by answer: how many pictures. Only what occurred."""
        counts: dict[str, dict[str, int]] = {name: {} for name in self.names}
        for answer in self.answers:
            row = counts[answer.truth]
            row[answer.name] = row.get(answer.name, 0) + 1
        return counts

    @property
    def mistakes(self) -> list[Answer]:
        """Pictures that were given the name of a wrong class, the most confident mistakes first."""
        wrong = [answer for answer in self.answers if answer.name not in (answer.truth, UNKNOWN)]
        return sorted(wrong, key=lambda answer: -answer.confidence)

    @property
    def calibration_error(self) -> float | None:
        """The expected difference between confidence in the likeliest class and how often it is right, in percent
        points, on pictures of learned classes."""
        if not self.known:
            return None
        right = np.array([answer.likeliest == answer.truth for answer in self.known])
        return 100 * calibration_error(np.array([answer.confidence for answer in self.known]), right)

    @property
    def auroc(self) -> float | None:
        """How often a picture of a learned class looks more familiar than one of a class that was never learned."""
        if not self.known or not self.never_learned:
            return None
        known, strange = ([a.familiarity for a in answers] for answers in (self.known, self.never_learned))
        return auroc(np.array(known), np.array(strange))

    @property
    def milliseconds(self) -> float:
        """For a picture, in the network: the median."""
        return float(np.median([answer.milliseconds for answer in self.answers]))

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values, with every mistake."""
        return {
            "pictures": len(self.answers),
            "accuracy": self.accuracy,
            "classes": [
                {"name": name, "pictures": sum(self.confusion[name].values()), "accuracy": share}
                for name, share in self.accuracy_by_class.items()
            ],
            "called_unknown": self.called_unknown,
            "never_learned": {
                "classes": [name for name in self.names if name not in self.classes],
                "pictures": len(self.never_learned),
                "called_unknown": self.never_learned_called_unknown,
                "auroc": self.auroc,
            },
            "confusion": self.confusion,
            "calibration_error": self.calibration_error,
            "milliseconds": self.milliseconds,
            "mistakes": [
                {"picture": a.picture, "class": a.truth, "named": a.name, "confidence": a.confidence}
                for a in self.mistakes
            ],
            "learned_pictures": self.learned,
            "skipped_pictures": list(self.skipped),
        }


class PicturePredictor(Protocol):
    """What learners and model files predict with."""

    @property
    def prepare(self) -> Prepare: ...
    @property
    def batch(self) -> int: ...
    def predict(self, images: NDArray[np.uint8], always: bool = False) -> list[Prediction]: ...


def evaluate(
    predictor: PicturePredictor,
    classes: tuple[str, ...],
    pictures: Mapping[str, Pictures],
    progress: Progress | None = None,
    learned: Collection[int] = (),
) -> Evaluation:
    """`classes`: those that the predictor knows; `pictures`: by class; `learned`: digests of pictures it learned."""
    items = [(name, item) for name, source in pictures.items() for item in listed_pictures(source)]
    if not items:
        raise SparclError("There are no pictures to evaluate with: give at least one class.")
    answers: list[Answer] = []
    skipped: list[str] = []
    known = 0
    waiting: list[tuple[str, str, NDArray[np.uint8]]] = []

    def answer() -> None:
        images = np.stack([image for _, _, image in waiting])
        for (truth, where, _), said in zip(waiting, predictor.predict(images), strict=True):
            familiar = said.confidence if said.familiarity is None else said.familiarity
            likeliest = said.classes[0]
            answers.append(Answer(where, truth, said.name, likeliest, said.confidence, familiar, said.milliseconds))
        waiting.clear()

    decoded = decode_pictures([item for _, item in items], predictor.prepare)
    for place, ((truth, item), image) in enumerate(zip(items, decoded, strict=True)):
        if progress:
            progress("looking at pictures", place + 1, len(items))
        if isinstance(image, SparclError):
            skipped.append(str(image))
            continue
        known += bool(learned) and digest(image) in learned
        waiting.append((truth, _where(item, place), image))
        if len(waiting) == predictor.batch:
            answer()
    if waiting:
        answer()
    if not answers:
        reason = f" The first problem: {skipped[0]}" if skipped else ""
        raise SparclError(f"There is no readable picture to evaluate with.{reason}")
    return Evaluation(classes, tuple(answers), tuple(skipped), known)


def _where(item: Any, place: int) -> str:
    if not isinstance(item, tuple):
        return f"picture {place + 1}"
    tree, name = item
    return str(tree.where(name))


def _share(answers: Sequence[Answer], right: Any) -> float | None:
    return 100 * sum(map(right, answers)) / len(answers) if answers else None
