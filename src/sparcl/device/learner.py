"""A learner that lives in a directory.

learner = Learner.create("shop", image_size=64)
learner.learn({"apples": "photos/apples", "pears": "photos/pears"})
learner.learn({"plums": "photos/plums"}, minutes=5)
learner.predict("image.jpg")[0].name

shop/settings.json   how it learns, made once
shop/states/         the last states, one file each (states.py)
shop/learning/       a learning session that has begun and is not finished (pending.py)
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sparcl.backbone import DEFAULT_BACKBONE, find_backbone
from sparcl.checked import plain
from sparcl.data.source import Progress
from sparcl.device import settings as learner_settings
from sparcl.device.base_state import BaseState
from sparcl.device.cautions import cautions
from sparcl.device.evaluation import Evaluation, evaluate
from sparcl.device.gather import Pictures, Source, decode_files, listed_files, prepare_array
from sparcl.device.held_out import digests
from sparcl.device.history import HistoryEntry
from sparcl.device.initial_weights import read_initial
from sparcl.device.kinds import NO_BACKBONE, learner_class
from sparcl.device.learner_directory import LearnerDirectory, is_free, make_learner
from sparcl.device.model import OpenedState, open_state
from sparcl.device.pending import Pending, PendingDirectory
from sparcl.device.prediction import Prediction
from sparcl.device.preparation import prepare
from sparcl.device.session import Session, SessionListener, learn_pending
from sparcl.device.settings import LearnerSettings
from sparcl.device.states import States
from sparcl.device.status import describe
from sparcl.device.time_plan import TimePlan
from sparcl.errors import SparclError, UnfinishedError
from sparcl.graph import Graph, build_model
from sparcl.learning.loop import DivergedError, Stopped, check_batch_sizes
from sparcl.learning.settings import merge
from sparcl.network.part_rates import part_rates
from sparcl.wording import counted, quoted

MAX_MINUTES = 1_000_000
MAX_EPOCHS = 100_000


class Silent:
    """Watches a learning session without showing it; what must be said becomes a Python warning."""

    def noted(self, text: str) -> None:
        warnings.warn(text, stacklevel=2)

    def started(self, total_steps: int, done_steps: int) -> None: ...
    def stepped(self, epoch: int, epochs: int, step: int, total_steps: int, loss: float) -> None: ...


@dataclass(frozen=True)
class LearnResult:
    """What a learning session did: its entry in the history, the pictures that could not be read, what went badly
    (`cautions`), and what the pictures suggest (`advice`, if the learner has a backbone)."""

    entry: HistoryEntry
    skipped: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    deepened: str | None = None  # what came of learning deeply, in one sentence


class Learner:
    """Learns classes from folders of pictures as they come, and lives in a directory: `create` one, or `open` it.

    Several processes may predict with it while one learns. A power cut leaves it as it was before the session.
    """

    def __init__(self, directory: Path, settings: LearnerSettings) -> None:
        self.directory, self.settings = directory, settings
        self._session: Session | None = None
        self._stop_requested = False
        self._opened: OpenedState | None = None  # what the last prediction was made with

    @property
    def states(self) -> States:
        """Those of the directory that has the learner's name now."""
        return LearnerDirectory.open(self.directory).states

    @property
    def pending(self) -> PendingDirectory:
        """A learning session that has begun and is not finished, if there is one."""
        return LearnerDirectory.open(self.directory).pending

    @classmethod
    def create(
        cls,
        directory: str | Path,
        image_size: int | None = None,
        backbone: str = DEFAULT_BACKBONE,
        weights: str | Path | None = None,
        **changes: object,
    ) -> "Learner":
        """A new, empty learner that sees with a pretrained backbone: learning takes seconds, a few pictures are enough.

        With backbone="none" it learns from scratch; then `changes` are settings of its training: width=32,
        sparsity=0.9, classes=10, buffer="20MB", ..., and `weights` is a file to start from, as `sparcl.load_weights`
        reads it, or the directory of a run or a learner.
        """
        values: dict[str, Any] = {**changes, "weights": weights} if weights is not None else dict(changes)
        budget = learner_settings.buffer_budget(str(values.pop("buffer"))) if "buffer" in values else {}
        values = merge(learner_settings.split(values), budget)
        values["backbone"] = backbone
        if image_size is not None:
            values["pictures"] = {"size": image_size, **values.get("pictures", {})}
        return cls.create_from(directory, learner_settings.make(learner_settings.with_defaults(values)))

    @classmethod
    def create_from(
        cls, directory: str | Path, settings: LearnerSettings, note: Callable[[str], None] = lambda _: None
    ) -> "Learner":
        """A new, empty learner with settings that are complete already. `note` is told what was taken over from a file
        of weights."""
        path = Path(directory)
        if (path / learner_settings.FILE).exists():
            raise SparclError(f"{path} already holds a learner. Choose another directory, or remove it first.")
        if path.exists() and not is_free(path):
            raise SparclError(f"{path} exists and is not an empty directory. Choose another one.")
        if settings.backbone != NO_BACKBONE:
            find_backbone(settings.backbone).graph(settings.pictures.size)  # raises if there is none for such pictures
            make_learner(path, settings)
            return learner_class(settings.backbone)(path, settings)
        learner = cls(path, settings)
        # What cannot work fails before anything is written.
        network = learner.planned_network()
        part_rates(network, settings.training.rates)
        check_batch_sizes(settings.training, network, settings.capacity(max(settings.classes, 1)))
        weights = settings.training.weights
        initial = read_initial(weights, network, note) if weights.file is not None else None
        make_learner(path, settings, initial)
        return learner

    @classmethod
    def open(cls, directory: str | Path) -> "Learner":
        """The learner that lives in this directory."""
        path = Path(directory)
        settings = learner_settings.load(LearnerDirectory.open(path).home)
        return learner_class(settings.backbone)(path, settings)

    # Learning

    def learn(
        self,
        classes: Mapping[str, Source],
        *,
        minutes: float | None = None,
        epochs: int | None = None,
        listener: SessionListener | None = None,
        progress: Progress | None = None,
    ) -> LearnResult:
        """Learn new classes, or more pictures of known ones, from folders or from pictures in memory.

        Raises Stopped if `request_stop` was called: then `resume` continues, if learning itself had begun.
        """
        clock = TimePlan(np.inf)
        if minutes is not None and not 0 < minutes < MAX_MINUTES:
            raise SparclError(
                f"{minutes:g} minutes is no time to learn in. Give a number above 0 and below {MAX_MINUTES:,}."
            )
        if epochs is not None and not 1 <= epochs <= MAX_EPOCHS:
            raise SparclError(f"{epochs} epochs is impossible. Give a number from 1 to {MAX_EPOCHS:,}.")
        listener = listener or Silent()
        with LearnerDirectory.locked(self.directory, self.settings) as directory:
            if directory.interrupted is not None:
                raise UnfinishedError(
                    f"{self.directory} has a learning session that was interrupted.", "session", self.directory
                )
            if directory.pending.begun():
                listener.noted("Dropped a learning session that was interrupted while its pictures were being read.")
                directory.pending.clear()
            base = BaseState(directory.states, directory.states.newest())
            try:
                pending = prepare(
                    directory, base, self.settings, classes, minutes, epochs, self._poll, progress, listener.noted
                )
            except BaseException:
                directory.pending.clear()
                raise
            return self._learn_pending(directory, base, pending, listener, clock)

    def resume(self, listener: SessionListener | None = None) -> LearnResult:
        """Continue a learning session that was interrupted."""
        with LearnerDirectory.locked(self.directory, self.settings) as directory:
            if directory.interrupted is None:
                why = "was interrupted while its pictures were being read: give its folders again"
                raise SparclError(
                    f"The learning session in {self.directory} {why}."
                    if directory.pending.begun()
                    else f"{self.directory} has no interrupted learning session: there is nothing to resume."
                )
            pending = directory.pending.read(directory.interrupted)
            if pending.request.base != directory.states.newest():
                raise SparclError(
                    f"The state from which the interrupted learning session in {self.directory} began is gone. "
                    f"Drop it with `sparcl undo {quoted(self.directory)}`."
                )
            base = BaseState(directory.states, pending.request.base)
            return self._learn_pending(directory, base, pending, listener or Silent(), TimePlan(np.inf))

    def request_stop(self) -> None:
        """Stop at the next safe moment. May be called from a signal handler or another thread."""
        self._stop_requested = True
        if self._session is not None:
            self._session.request_stop()

    def undo(self) -> str:
        """Drop an interrupted learning session; if there is none, go back to before the last finished one. Says which
        of them it did."""
        with LearnerDirectory.locked(self.directory, self.settings, damaged_pending=True) as directory:
            if directory.pending.begun():
                moment = "" if self._can_resume(directory) else " while its pictures were being read"
                directory.pending.clear()
                return (
                    f"Dropped the learning session that was interrupted{moment}; {self.directory} is as it was "
                    "before it, and everything learned earlier is still there."
                )
            numbers = directory.states.numbers()
            if not numbers:
                raise SparclError(f"{self.directory} has learned nothing: there is nothing to undo.")
            if numbers[0] > 1 and numbers[0] - 1 not in numbers:
                self._check_undo(directory)
                steps = counted(self.settings.undo_steps, "learning session")
                raise SparclError(f"{self.directory} can undo {steps}, and has done so already.")
            directory.states.remove_newest()
            then = f"after learning session {numbers[0] - 1}" if numbers[0] > 1 else "before it had learned anything"
            return f"Undone learning session {numbers[0]}: {self.directory} is as it was {then}."

    def _can_resume(self, directory: LearnerDirectory) -> bool:
        return directory.pending.exists()

    def _check_undo(self, directory: LearnerDirectory) -> None:
        """Raises if there is a reason of its own why it cannot be gone back any further."""

    def _learn_pending(
        self,
        directory: LearnerDirectory,
        base: BaseState,
        pending: Pending,
        listener: SessionListener,
        clock: TimePlan,
    ) -> LearnResult:
        def begun(session: Session) -> None:
            self._session = session
            if self._stop_requested:
                session.request_stop()

        try:
            entry = learn_pending(self.settings, directory, base, pending, listener, clock, begun)
        except Stopped:
            assert self._session is not None
            self._session.checkpoint()
            directory.check_name(interrupted=True)
            raise
        except DivergedError as error:  # it would diverge again
            directory.pending.clear()
            slower = self.settings.training.method.options["learning_rate"] / 10
            raise SparclError(
                f"{error} {self.directory} is as it was before. What it was made with stays, so make another one, "
                f"for example with method.learning_rate={slower:g}."
            ) from error
        finally:
            self._session = None
            self._stop_requested = False
        directory.check_name()
        found = tuple(cautions(entry, self.settings.training.epochs, self.directory))
        if isinstance(listener, Silent):
            for caution in found:
                listener.noted(caution)
        return LearnResult(entry, pending.request.skipped, found)

    def _poll(self) -> None:
        if self._stop_requested:
            self._stop_requested = False
            raise Stopped

    # Looking

    def predict(self, pictures: Pictures, *, always: bool = False) -> list[Prediction]:
        """What each picture shows: of a file, all files of a folder, many of them, or pictures in memory. Pictures that
        resemble no class are `unknown`, if the learner has a backbone, unless it must `always` name one.

        The state stays open between calls; what somebody else has learned or undone since counts at once. Raises for
        the first picture that cannot be read.
        """
        self._opened = opened = open_state(self.directory, self._opened)
        predictor = opened.predictor
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
        return predictor.predict(np.stack(images), always) if images else []

    def evaluate(self, classes: Mapping[str, Pictures], progress: Progress | None = None) -> Evaluation:
        """How well it does on pictures whose classes are known, given as for `learn`. Of a class that it has not
        learned the right answer is `unknown`. Pictures that cannot be read are left out and named."""
        self._opened = opened = open_state(self.directory, self._opened)
        known = opened.predictor.description.classes
        return evaluate(opened.predictor, known, classes, progress, self._learned_digests())

    def _learned_digests(self) -> frozenset[int]:
        """Of the pictures that it has certainly been trained on: those that it keeps."""
        states = self.states
        images, _ = BaseState(states, states.newest()).rehearsed
        return frozenset(map(int, digests(images)))

    def planned_network(self) -> Graph:
        """The graph of the network that the first learning session will make; raises if it cannot be built."""
        training, size = self.settings.training, self.settings.pictures.size
        try:
            return build_model(training.model, (3, size, size), max(self.settings.classes, 2), training.width)
        except ValueError as error:
            raise SparclError(f"Pictures of {size} pixels are too small for {training.model}: {error}.") from error

    def status(self) -> dict[str, Any]:
        """Classes, samples kept, sparsity, sizes, history."""
        return dict(plain(describe(self)))

    # What only a learner with a backbone can do

    def deepen(
        self, minutes: float | None = None, *, anew: bool = False, listener: SessionListener | None = None
    ) -> str:
        """Train the upper part of the backbone on the pictures that are kept. Returns what came of it."""
        raise self._needs_backbone("deepened: it learns deeply whenever it learns")

    def correct(self, picture: Any, name: str | None = None, *, denied: str | None = None) -> str:
        """Say what a picture shows, or only what it does not show."""
        raise self._needs_backbone("corrected picture by picture")

    def rename(self, old: str, new: str) -> str:
        """Give a class another name."""
        raise self._needs_backbone("renamed in parts")

    def forget(self, *, name: str | None = None, picture: Any = None) -> str:
        """Forget a class or a picture, exactly."""
        raise self._needs_backbone("made to forget")

    def _needs_backbone(self, done: str) -> SparclError:
        return SparclError(
            f"{self.directory} learns from scratch, and what it has learned is all in one network, which cannot be "
            f"{done}. A learner with a backbone can: sparcl new DIRECTORY"
        )
