"""A learner that lives in a directory.

learner = Learner.create("shop", image_size=64)
learner.learn({"apples": "photos/apples", "pears": "photos/pears"})
learner.learn({"plums": "photos/plums"}, minutes=5)
learner.predict("image.jpg")[0].name

shop/settings.json   how it learns, made once
shop/states/         the last states, one file each (states.py)
shop/learning/       a learn that has begun and is not finished (pending.py)
"""

import contextlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sparcl.data.source import Progress
from sparcl.device import held_out
from sparcl.device import settings as learner_settings
from sparcl.device.base import Base
from sparcl.device.cautions import cautions
from sparcl.device.gather import Gathered, Pictures, decode_files, listed_files, prepare_array
from sparcl.device.model import MOST_CLASSES, check_learner, open_predictor
from sparcl.device.pending import Order, PendingDirectory
from sparcl.device.prediction import Prediction
from sparcl.device.session import Listener, Session, learn_pending
from sparcl.device.settings import LearnerSettings
from sparcl.device.states import States
from sparcl.device.status import describe
from sparcl.device.time_plan import TimePlan
from sparcl.errors import SparclError
from sparcl.files import TEMPORARY_SUFFIX, locked, make_directory, write_error
from sparcl.graph import Graph, build_model
from sparcl.learning.loop import DivergedError, Stopped, check_batch_sizes
from sparcl.learning.settings import merge
from sparcl.wording import counted, quoted

LONGEST_NAME = 100
MAX_MINUTES = 1_000_000
MAX_EPOCHS = 100_000


class Silent:
    """Watches a learning session without showing it; what must be said becomes a Python warning."""

    def noted(self, text: str) -> None:
        warnings.warn(text, stacklevel=2)

    def started(self, total_steps: int, done_steps: int) -> None: ...
    def stepped(self, epoch: int, epochs: int, step: int, total_steps: int, loss: float) -> None: ...


@dataclass(frozen=True)
class Learned:
    """What a learning session did: its entry in the history, the pictures that could not be read, and what went badly
    (`cautions.py`)."""

    entry: dict[str, Any]
    skipped: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()


class Learner:
    def __init__(self, directory: Path, settings: LearnerSettings) -> None:
        self.directory, self.settings = directory, settings
        self.states = States(directory / "states")
        self.pending = PendingDirectory(directory / "learning")
        self._session: Session | None = None
        self._stop_requested = False

    @classmethod
    def create(cls, directory: str | Path, image_size: int = 64, **changes: Any) -> "Learner":
        """A new, empty learner. `changes` are settings: width=32, sparsity=0.9, classes=10, buffer="20MB", ..."""
        values = dict(changes)
        budget = learner_settings.buffer_budget(str(values.pop("buffer"))) if "buffer" in values else {}
        values = merge(learner_settings.split(values), budget)
        values["pictures"] = {"size": image_size, **values.get("pictures", {})}
        return cls.create_from(directory, learner_settings.make(values))

    @classmethod
    def create_from(cls, directory: str | Path, settings: LearnerSettings) -> "Learner":
        path = Path(directory)
        if (path / learner_settings.FILE).exists():
            raise SparclError(f"{path} already holds a learner. Choose another directory, or remove it first.")
        if path.exists() and not _is_free(path):
            raise SparclError(f"{path} exists and is not an empty directory. Choose another one.")
        learner = cls(path, settings)
        # What cannot work fails before anything is written.
        check_batch_sizes(settings.training, learner.planned_network(), settings.capacity(max(settings.classes, 1)))
        try:
            make_directory(path)
            make_directory(learner.states.directory)
        except OSError as error:
            raise write_error(path, error) from error
        learner_settings.store(path, settings)  # from here on it is a learner
        return learner

    @classmethod
    def open(cls, directory: str | Path) -> "Learner":
        path = Path(directory)
        check_learner(path)
        return cls(path, learner_settings.load(path))

    # Learning

    def learn(
        self,
        classes: Mapping[str, Pictures],
        *,
        minutes: float | None = None,
        epochs: int | None = None,
        listener: Listener | None = None,
        progress: Progress | None = None,
    ) -> Learned:
        """Learn new classes, or more pictures of known ones, from folders or from pictures in memory.

        Raises Stopped if `request_stop` was called: then `resume` goes on, if there was something to go on with.
        """
        clock = TimePlan(np.inf)
        if minutes is not None and not 0 < minutes < MAX_MINUTES:
            raise SparclError(
                f"{minutes:g} minutes is no time to learn in. Give a number above 0 and below {MAX_MINUTES:,}."
            )
        if epochs is not None and not 1 <= epochs <= MAX_EPOCHS:
            raise SparclError(f"{epochs} epochs is impossible. Give a number from 1 to {MAX_EPOCHS:,}.")
        with locked(self.directory):
            self._finish_cleaning()
            if self.pending.exists():
                raise SparclError(
                    f"{self.directory} has a learn that was interrupted. Go on with it: "
                    f"sparcl learn {quoted(self.directory)} --resume; or drop it: sparcl undo {quoted(self.directory)}"
                )
            self.pending.clear()  # pictures of a learn that was cut off before it began
            try:
                self._gather(classes, minutes, epochs, progress, (listener or Silent()).noted)
            except BaseException:
                self.pending.clear()
                raise
            return self._learn_pending(listener or Silent(), clock)

    def resume(self, listener: Listener | None = None) -> Learned:
        """Go on with a learn that was interrupted."""
        with locked(self.directory):
            self._finish_cleaning()
            if not self.pending.exists():
                raise SparclError(f"{self.directory} has no interrupted learn: there is nothing to resume.")
            return self._learn_pending(listener or Silent(), TimePlan(np.inf))

    def request_stop(self) -> None:
        """Stop at the next safe moment. May be called from a signal handler or another thread."""
        self._stop_requested = True
        if self._session is not None:
            self._session.request_stop()

    def undo(self) -> str:
        """Back to before the last learn. Says what was done."""
        with locked(self.directory):
            if self._drop_pending():
                return "Dropped the learn that was interrupted; the learner is as it was before it."
            numbers = self.states.numbers()
            if not numbers:
                raise SparclError(f"{self.directory} has learned nothing: there is nothing to undo.")
            if numbers[0] > 1 and numbers[0] - 1 not in numbers:
                raise SparclError(
                    f"{self.directory} can undo {counted(self.settings.undo_steps, 'learn')}, and has done so already."
                )
            self.states.remove_newest()
            then = f"after learn {numbers[0] - 1}" if numbers[0] > 1 else "before it had learned anything"
            return f"Undone: {self.directory} is as it was {then}."

    def _learn_pending(self, listener: Listener, clock: TimePlan) -> Learned:
        def begun(session: Session) -> None:
            self._session = session
            if self._stop_requested:
                session.request_stop()

        try:
            skipped = self.pending.order().skipped
            entry = learn_pending(self.settings, self.states, self.pending, listener, clock, begun)
            found = tuple(cautions(entry, self.settings.training.epochs, self.directory))
            if isinstance(listener, Silent):
                for caution in found:
                    listener.noted(caution)
            return Learned(entry, skipped, found)
        except Stopped:
            assert self._session is not None
            self._session.checkpoint()
            raise
        except DivergedError as error:  # it would diverge again
            self.pending.clear()
            slower = self.settings.training.method.options["learning_rate"] / 10
            raise SparclError(
                f"{error} {self.directory} is as it was before. What it was made with stays, so make another one, "
                f"for example with --set method.learning_rate={slower:g}."
            ) from error
        finally:
            self._session = None
            self._stop_requested = False

    def _finish_cleaning(self) -> None:
        """A power cut between the new state and the removal of what led to it leaves a learn that is done already."""
        if self.pending.exists() and self.pending.order().base < self.states.newest():
            self.pending.clear()

    def _drop_pending(self) -> bool:
        """Whether there was an interrupted learn to drop."""
        with contextlib.suppress(SparclError):  # one that is damaged can be dropped all the same
            self._finish_cleaning()
        was_there = self.pending.exists()
        self.pending.clear()
        return was_there

    def _poll(self) -> None:
        if self._stop_requested:
            self._stop_requested = False
            raise Stopped

    def _gather(
        self,
        classes: Mapping[str, Pictures],
        minutes: float | None,
        epochs: int | None,
        progress: Progress | None,
        note: Callable[[str], None],
    ) -> None:
        """Decode everything and write it down; from then on the learn is pending."""
        base = Base(self.states, self.states.newest())
        new = [_checked_name(name) for name in classes if name not in base.classes]
        names = (*base.classes, *new)
        if not classes:
            raise SparclError("There is nothing to learn: give at least one class.")
        if len(names) > MOST_CLASSES:
            raise SparclError(f"{self.directory} would have {len(names):,} classes; {MOST_CLASSES:,} are the most.")
        size = self.settings.pictures.size
        gathered = Gathered({names.index(name): pictures for name, pictures in classes.items()}, size, self._poll)
        checksum = self.pending.write_images(gathered.blocks(progress))
        labels = np.array(gathered.labels, np.int64)
        for name in classes:
            if not (labels == names.index(name)).any():
                reason = f" The first problem: {gathered.skipped[0]}" if gathered.skipped else ""
                raise SparclError(f"There is no readable picture of {name!r}.{reason}")
        held = self._hold_out(base, names, gathered, labels, note)
        skipped = tuple(gathered.skipped)
        order = Order(base.number, names, len(new), size, len(labels), checksum, skipped, minutes, epochs)
        self.pending.write(order, labels, held)

    def _hold_out(
        self, base: Base, names: tuple[str, ...], gathered: Gathered, labels: Any, note: Callable[[str], None]
    ) -> Any:
        """Which pictures are not trained on. What is odd about them is said."""
        digests = np.array(gathered.digests, np.uint64)
        if gathered.copies:
            copies = ", ".join(f"{names[label]} {count:,}" for label, count in gathered.copies.items())
            note(f"Copies of the same picture are left out: {copies}.")
        for one, other, count in held_out.in_two_classes(digests, labels):
            note(f"{counted(count, 'picture')} given as {names[one]!r} and as {names[other]!r}: only one can be right.")
        known, known_labels = base.held_out
        known_digests, rehearsed, rehearsed_labels = held_out.digests(known), *base.rehearsed
        for given, was, count in held_out.known_elsewhere(
            digests,
            labels,
            np.concatenate([known_digests, held_out.digests(rehearsed)]),
            np.concatenate([known_labels, rehearsed_labels]),
        ):
            note(
                f"{counted(count, 'picture')} given as {names[given]!r}, and known as {names[was]!r} already: "
                "only one can be right."
            )
        pictures = self.settings.pictures
        held = held_out.select(digests, labels, pictures.held_out, pictures.held_out_most, known_digests, known_labels)
        for label in np.unique(labels):
            if held[labels == label].all() and label >= len(base.classes):
                raise SparclError(
                    f"All pictures of {names[label]!r} are held out to judge by, and never trained on: give others."
                )
        if (~held).sum() < held_out.LEAST_TO_LEARN:
            raise SparclError(
                f"{counted(int((~held).sum()), 'picture')} cannot be learned from: give at least "
                f"{held_out.LEAST_TO_LEARN}, better 20 or more of each class."
            )
        return held

    # Looking

    def predict(self, pictures: Pictures) -> list[Prediction]:
        """What each picture shows: of a file, all files of a folder, many of them, or pictures in memory.

        Raises for the first picture that cannot be read.
        """
        predictor = open_predictor(self.directory)
        images = []
        items: Sequence[Any] = [pictures] if isinstance(pictures, str | Path) else list(pictures)
        for item in items:
            if not isinstance(item, str | Path):
                images.append(prepare_array(item, predictor.description.size))
                continue
            for image in decode_files(listed_files(Path(item)), predictor.description.size):
                if isinstance(image, SparclError):
                    raise image
                images.append(image)
        return predictor.predict(np.stack(images)) if images else []

    def planned_network(self) -> Graph:
        """The graph of the network that the first learn will make; raises if it cannot be built."""
        training, size = self.settings.training, self.settings.pictures.size
        try:
            return build_model(training.model, (3, size, size), max(self.settings.classes, 2), training.width)
        except ValueError as error:
            raise SparclError(f"Pictures of {size} pixels are too small for {training.model}: {error}.") from error

    def status(self) -> dict[str, Any]:
        """Classes, samples kept, sparsity, sizes, history."""
        return describe(self)


def _is_free(path: Path) -> bool:
    """Whether a directory is empty, but for what a `new` leaves that was cut off by a full disk or a power cut."""
    half_made = ("states", learner_settings.FILE + TEMPORARY_SUFFIX)
    return path.is_dir() and all(
        entry.name in half_made and not (entry.is_dir() and any(entry.iterdir())) for entry in path.iterdir()
    )


def _checked_name(name: Any) -> str:
    if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > LONGEST_NAME:
        raise SparclError(f"{name!r} cannot be the name of a class. Give a short name of printable characters.")
    return name
