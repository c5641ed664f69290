"""A learner with a backbone: it learns at once, corrects and forgets single pictures, and knows what it does not know.

What it knows is a function of the pictures that it keeps (kept.py). So learning is exact, whatever the order; and
forgetting is exact too.
"""

import contextlib
import datetime
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparcl.backbone import find_backbone
from sparcl.data.source import Progress
from sparcl.device.gather import Gathered, Source, decode_files, listed_files, prepare_array
from sparcl.device.held_out import digest, in_two_classes, known_elsewhere
from sparcl.device.history import HistoryEntry
from sparcl.device.learner import MAX_MINUTES, Learner, LearnResult, Silent
from sparcl.device.learner_directory import LearnerDirectory
from sparcl.device.model import ATTEMPTS, changing
from sparcl.device.prediction import UNKNOWN
from sparcl.device.preparation import checked_name
from sparcl.device.session import SessionListener
from sparcl.device.states import States
from sparcl.errors import SparclError, UnfinishedError
from sparcl.instant.cautions import cautions
from sparcl.instant.deep_session import DeepRequest, DeepSession, read_request
from sparcl.instant.features import FeatureExtractor
from sparcl.instant.head import About
from sparcl.instant.kept import Kept, Photo
from sparcl.instant.photo_doctor import MAX_QUICK, in_short
from sparcl.instant.photos import photo_of
from sparcl.instant.predictor import backbone_of, extractor_of
from sparcl.instant.state import InstantState, is_instant
from sparcl.instant.verdict import check_enough, held_out
from sparcl.learning.loop import Stopped
from sparcl.wording import counted, quoted

MAX_CLASSES = 10_000
SHORTEST_MINUTES = 0.05  # of learning deeply, however long the pictures took
DIGEST = re.compile("[0-9a-f]{16}")


class InstantLearner(Learner):
    """`Learner.create` makes one unless it is told `backbone="none"`; `Learner.open` knows which kind it opens."""

    _deep: DeepSession | None = None  # that is in progress
    _features: FeatureExtractor | None = None

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
        """Learn new classes, or more pictures of known ones, at once. With `minutes` the upper part of the backbone is
        trained for that long afterwards (`deepen`)."""
        if epochs is not None:
            raise SparclError("A learner with a backbone learns at once, without epochs. Give minutes to learn deeply.")
        if minutes is not None and not 0 < minutes < MAX_MINUTES:
            raise SparclError(
                f"{minutes:g} minutes is no time to learn in. Give a number above 0 and below {MAX_MINUTES:,}."
            )
        if not classes:
            raise SparclError("There is nothing to learn: give at least one class.")
        for name in classes:
            _check_class(name)
        start, listener = time.perf_counter(), listener or Silent()
        with self._changing() as (directory, state):
            if len({*state.about.classes, *classes}) > MAX_CLASSES:
                raise SparclError(f"{self.directory} would have more than {MAX_CLASSES:,} classes, which is the most.")
            names = sorted(classes)
            gathered = Gathered(
                {label: classes[name] for label, name in enumerate(names)}, self.settings.pictures.size, self._poll
            )
            photos = self._photos(state, gathered, names, progress)
            self._note_contradictions(state, gathered, names, listener)
            kept, added = state.kept, {}
            for name in names:
                before = int(kept.of_class(name).sum())
                kept = kept.with_photos(name, photos[name])
                added[name] = int(kept.of_class(name).sum()) - before
            if not any(added.values()):
                listener.noted("All of these pictures are known already.")
            thinned = kept.thinned(self.settings.keep)
            if len(thinned) < len(kept):
                listener.noted(
                    f"At most {self.settings.keep:,} pictures of each class are kept and learned from (setting keep); "
                    f"{counted(len(kept) - len(thinned), 'picture')} left out."
                )
            new = state.changed(thinned, self.settings.unknown)
            entry = self._entry(state, new, added, time.perf_counter() - start, len(gathered.skipped))
            self._commit(directory, new.with_entry(entry))
        deepened = None
        if minutes is not None:
            try:
                check_enough(held_out(new.kept.digests, new.kept.labels))
            except SparclError as error:
                listener.noted(f"{error} So it is learned at once, and not deeply.")
            else:
                left = minutes - (time.perf_counter() - start) / 60
                deepened = self.deepen(max(left, SHORTEST_MINUTES), listener=listener)
        found = tuple(cautions(entry, new, self.directory))
        advice = tuple(self._advice(self.state() if deepened else new))
        result = LearnResult(entry, tuple(gathered.skipped), found, advice, deepened)
        if isinstance(listener, Silent):
            for caution in result.cautions:
                listener.noted(caution)
        return result

    def deepen(
        self, minutes: float | None = None, *, anew: bool = False, listener: SessionListener | None = None
    ) -> str:
        """Train the upper part of the backbone on the pictures that are kept, and keep it only if pictures that were
        never trained on are recognised no worse. Returns what came of it. Raises Stopped if `request_stop` was called;
        then `resume` continues.

        anew: begin with the backbone's own weights, as if it had never been deepened.
        """
        if minutes is not None and not 0 < minutes < MAX_MINUTES:
            raise SparclError(
                f"{minutes:g} minutes is no time to learn in. Give a number above 0 and below {MAX_MINUTES:,}."
            )
        with self._changing() as (directory, state):
            number = directory.states.newest()
            request = DeepRequest(base=number, minutes=minutes, anew=anew, seed=self.settings.training.seed)
            return self._run_deep(directory, state, request, listener or Silent(), resume=False)

    def resume(self, listener: SessionListener | None = None) -> LearnResult:
        """Continue a deep learning session that was interrupted."""
        with LearnerDirectory.locked(self.directory, self.settings, damaged_pending=True) as directory:
            request, state = read_request(directory), self._read(directory.states)
            if request.base != directory.states.newest():  # it had ended when the power failed
                directory.pending.clear()
                raise SparclError(f"{self.directory} has no interrupted learning session: there is nothing to resume.")
            done = self._run_deep(directory, state, request, listener or Silent(), resume=True)
        return LearnResult(self.state().history[-1], deepened=done)

    def _run_deep(
        self,
        directory: LearnerDirectory,
        state: InstantState,
        request: DeepRequest,
        listener: SessionListener,
        resume: bool,
    ) -> str:
        self._deep = session = DeepSession(directory, state, request, listener)
        try:
            found = session.run(self.settings.unknown, self.settings.training.threads, self._poll, resume)
        except Stopped:
            directory.check_name(interrupted=True)
            raise
        finally:
            self._deep = None
            self._stop_requested = False
        verdict, shown = found.verdict, counted(found.verdict.pictures, "picture")
        if found.state is None:
            directory.pending.clear()
            return (
                f"Learned deeply for {found.seconds:.0f} s, and it did not help: of {shown} that were never trained on "
                f"{verdict.after} are recognised instead of {verdict.before}. {self.directory} stays as it was."
            )
        entry = self._entry(state, found.state, {}, found.seconds, 0, found.epochs, found.steps)
        self._commit(directory, found.state.with_entry(entry))
        with contextlib.suppress(SparclError):  # it is learned: what cannot be removed now is removed by the next one
            directory.pending.clear()
        return (
            f"Learned deeply for {found.seconds:.0f} s: of {shown} that were never trained on {verdict.after} are "
            f"recognised; before, {verdict.before} were."
        )

    def request_stop(self) -> None:
        """Stop at the next safe moment. May be called from a signal handler or another thread."""
        self._stop_requested = True
        if self._deep is not None:
            self._deep.request_stop()

    def _photos(
        self, state: InstantState, gathered: Gathered, names: Sequence[str], progress: Progress | None
    ) -> dict[str, list[Photo]]:
        """By class. Features of pictures that are kept already are not computed again."""
        features = self._extractor(state)
        known = {
            (state.kept.name_of(place), int(found))
            for place, found in enumerate(state.kept.digests)
            if state.kept.labels[place] >= 0
        }
        photos: dict[str, list[Photo]] = {name: [] for name in names}
        found = 0
        for block in gathered.blocks(progress):
            for image in block:
                self._poll()
                name, content = names[gathered.labels[found]], gathered.digests[found]
                found += 1
                if (name, content) not in known:
                    photos[name].append(photo_of(image, features))
        for name in names:
            if not photos[name] and not any(label == names.index(name) for label in gathered.labels):
                reason = f" The first problem: {gathered.skipped[0]}" if gathered.skipped else ""
                raise SparclError(f"There is no readable picture of {name!r}.{reason}")
        return photos

    def _note_contradictions(
        self, state: InstantState, gathered: Gathered, names: Sequence[str], listener: SessionListener
    ) -> None:
        for line in gathered.notes:
            listener.noted(line)
        if gathered.copies:
            copies = ", ".join(f"{names[label]} {count:,}" for label, count in gathered.copies.items())
            listener.noted(f"Copies of the same picture are left out: {copies}.")
        digests, labels = np.array(gathered.digests, np.uint64), np.array(gathered.labels, np.int64)
        for one, other, count in in_two_classes(digests, labels):
            listener.noted(
                f"{counted(count, 'picture')} given as {names[one]!r} and as {names[other]!r}: only one can be right."
            )
        all_names = [*names, *(name for name in state.about.classes if name not in names)]
        learned = state.kept.learned
        known = np.array(
            [all_names.index(state.about.classes[label]) for label in state.kept.labels[learned]], np.int64
        )
        for given, was, count in known_elsewhere(digests, labels, state.kept.digests[learned], known):
            listener.noted(
                f"{counted(count, 'picture')} given as {all_names[given]!r}, but already known as {all_names[was]!r}: "
                f"only one can be right. Say which with: sparcl correct {quoted(self.directory)} PICTURE CLASS"
            )

    # Correcting and forgetting

    def correct(self, picture: Any, name: str | None = None, *, denied: str | None = None) -> str:
        """Say what a picture shows (`name`), or only that it does not show a class (`denied`). Returns what was done.

        Whatever it was learned as before, it is not any more.
        """
        if (name is None) == (denied is None):
            raise SparclError("Say what the picture shows, or only what it does not show.")
        content, image = self._identified(picture)
        with self._changing() as (directory, state):
            if denied is not None and denied not in state.about.classes:
                raise SparclError(f"{self.directory} knows no class {denied!r}. {_known(state)}")
            kept = state.kept
            was = kept.digests == np.uint64(content)
            if image is None and not was.any():
                raise SparclError(f"{self.directory} knows no picture {content:016x}.")
            known = kept.photo(int(was.argmax())) if was.any() else None
            if denied is not None:
                was &= kept.of_class(denied)
            elif name is not None:
                _check_class(name)
            kept = kept.without(was)
            photo = photo_of(image, self._extractor(state)) if image is not None else known
            assert photo is not None
            if name is not None:
                kept = kept.with_photos(name, [photo])
                done = f"{self.directory} knows this picture as {name!r} now."
            else:
                assert denied is not None
                kept = kept.with_photos(denied, [photo], denied=True)
                done = f"{self.directory} knows that this picture is not {denied!r}."
                if denied not in kept.classes:
                    done += f" It was the only one of {denied!r}, which is forgotten."
            self._commit_kept(directory, state, kept, {name: 1} if name is not None else {})
        return done

    def rename(self, old: str, new: str) -> str:
        """Give a class another name. If there is a class of that name, they become one."""
        _check_class(new)
        with self._changing() as (directory, state):
            if old not in state.about.classes:
                raise SparclError(f"{self.directory} knows no class {old!r}. {_known(state)}")
            merged = new in state.about.classes and new != old
            self._commit_kept(directory, state, state.kept.renamed(old, new), {})
        return f"{old!r} and {new!r} are one class now: {new!r}." if merged else f"{old!r} is called {new!r} now."

    def forget(self, *, name: str | None = None, picture: Any = None) -> str:
        """Forget a class, or a picture, as if it had never been seen. It cannot be undone: what could bring it back
        is removed too."""
        if (name is None) == (picture is None):
            raise SparclError("Say what to forget: a class or a picture.")
        content = self._identified(picture)[0] if picture is not None else None
        with self._changing(drop_pending=True) as (directory, state):
            if name is not None:
                if name not in state.about.classes:
                    raise SparclError(f"{self.directory} knows no class {name!r}. {_known(state)}")
                label = state.about.classes.index(name)
                gone = (state.kept.labels == label) | (state.kept.labels == -1 - label)
            else:
                assert content is not None
                gone = state.kept.digests == np.uint64(content)
                if not gone.any():
                    raise SparclError(
                        f"{self.directory} does not know this picture. Pictures are recognised by their content: "
                        "give the same file that was learned."
                    )
            number = directory.states.newest() + 1
            new = state.changed(state.kept.without(gone), self.settings.unknown, first=number)
            # If power fails before the new state is there, it was not forgotten; afterwards nothing older remains.
            for older in directory.states.numbers()[1:]:
                directory.states.remove(older)
            entry = self._entry(state, new, {}, 0.0, 0)
            self._commit(directory, new.with_entry(entry))
        what = f"the class {name!r}" if name is not None else "this picture"
        deep = (
            " The upper part of its network was trained with it too: to be rid of that, `sparcl deepen --anew` trains "
            "it again from the pictures that are left."
            if state.upper
            else ""
        )
        return f"{self.directory} has forgotten {what}: {counted(int(gone.sum()), 'picture')}.{deep}"

    # Looking

    def state(self) -> InstantState:
        """The last committed one, whole."""
        for _ in range(ATTEMPTS):
            directory = LearnerDirectory.open(self.directory)
            with contextlib.suppress(FileNotFoundError):
                return self._read(directory.states)
        raise changing(self.directory)

    def status(self) -> dict[str, Any]:
        """Classes, pictures kept, accuracy, calibration, sizes, history."""
        from sparcl.instant.status import describe

        return describe(self)

    # Parts

    def _can_resume(self, directory: LearnerDirectory) -> bool:
        return True  # what is pending has all of its pictures in the state

    def _advice(self, state: InstantState) -> list[str]:
        """What the pictures suggest. That there are few of what was learned is a caution already."""
        if len(state.kept) > MAX_QUICK:
            return []
        return in_short(state.examined(), without="few")

    def _learned_digests(self) -> frozenset[int]:
        return frozenset(map(int, self.state().kept.digests))

    def _check_undo(self, directory: LearnerDirectory) -> None:
        if self._read(directory.states).first == directory.states.newest():
            raise SparclError(f"{self.directory} has forgotten something, and cannot go back to when it still knew it.")

    @contextlib.contextmanager
    def _changing(self, drop_pending: bool = False) -> Iterator[tuple[LearnerDirectory, InstantState]]:
        with LearnerDirectory.locked(self.directory, self.settings, damaged_pending=True) as directory:
            state = self._read(directory.states)
            if directory.pending.begun():
                if not drop_pending and self._interrupted(directory):
                    raise UnfinishedError(
                        f"{self.directory} has a deep learning session that was interrupted.", "session", self.directory
                    )
                directory.pending.clear()
            remove_forgotten(directory.states, state)
            yield directory, state
            directory.check_name()

    def _interrupted(self, directory: LearnerDirectory) -> bool:
        """Whether what is pending can go on: not if power failed after it had ended, or before it began."""
        try:
            return read_request(directory).base == directory.states.newest()
        except SparclError:
            return False

    def _read(self, states: States) -> InstantState:
        number = states.newest()
        if not number:
            return InstantState.empty(find_backbone(self.settings.backbone), self.settings.pictures.size)
        with states.open(number) as sealed:
            if not is_instant(sealed.state):
                raise ValueError("it is the state of a learner without a backbone")
            about = About.from_json(sealed.state)
            if about.size != self.settings.pictures.size or about.backbone != self.settings.backbone:
                raise ValueError("it contradicts the settings")
            return InstantState.from_tensors(sealed, sealed.state, backbone_of(about).features)

    def _extractor(self, state: InstantState) -> FeatureExtractor:
        """That of the backbone as it came stays ready."""
        backbone, size = backbone_of(state.about), state.about.size
        if state.upper:
            return extractor_of(backbone, size, {f"upper.{name}": tensor for name, tensor in state.upper.items()})
        if self._features is None or self._features.backbone.digest != backbone.digest:
            self._features = FeatureExtractor(backbone, size)
        return self._features

    def _commit_kept(self, directory: LearnerDirectory, state: InstantState, kept: Kept, added: dict[str, int]) -> None:
        new = state.changed(kept, self.settings.unknown)
        self._commit(directory, new.with_entry(self._entry(state, new, added, 0.0, 0)))

    def _commit(self, directory: LearnerDirectory, state: InstantState) -> None:
        kept = 1 if state.first > directory.states.newest() else self.settings.undo_steps + 1
        directory.states.commit(directory.states.newest() + 1, *state.to_tensors(), kept)

    def _entry(
        self,
        old: InstantState,
        new: InstantState,
        added: dict[str, int],
        seconds: float,
        skipped: int,
        epochs: int = 0,
        steps: int = 0,
    ) -> HistoryEntry:
        counts = {name: int(new.kept.of_class(name).sum()) for name in added}
        return HistoryEntry(
            number=(old.history[-1].number if old.history else 0) + 1,
            when=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            pictures=added,
            kept=counts,
            new=[name for name in new.about.classes if name not in old.about.classes],
            skipped=skipped,
            epochs=epochs,
            steps=steps,
            seconds=seconds,
            before=old.judgement() if old.about.classes else None,
            after=new.judgement(),
        )

    def _identified(self, picture: Any) -> tuple[int, NDArray[np.uint8] | None]:
        """The digest of a picture, and the picture, unless it was named by its digest, as the report does."""
        text = str(picture) if isinstance(picture, str | Path) else ""
        if DIGEST.fullmatch(text) and not Path(text).exists():
            return int(text, 16), None
        image = self._decoded(picture)
        return digest(image), image

    def _decoded(self, picture: Any) -> NDArray[np.uint8]:
        size = self.settings.pictures.size
        if not isinstance(picture, str | Path):
            return prepare_array(picture, size)
        files = listed_files(Path(picture))
        if len(files) != 1 or Path(picture).is_dir():
            raise SparclError(f"{picture} is a folder. Give one picture.")
        image = next(iter(decode_files(files, size)))
        if isinstance(image, SparclError):
            raise image
        return image


def remove_forgotten(states: States, state: InstantState) -> None:
    """What a power cut may have left of the states before something was forgotten."""
    for number in states.numbers():
        if number < state.first:
            states.remove(number)


def _check_class(name: Any) -> None:
    if checked_name(name) == UNKNOWN:
        raise SparclError(f"{UNKNOWN!r} is what a learner says when it does not know. Give the class another name.")


def _known(state: InstantState) -> str:
    return f"It knows: {', '.join(state.about.classes) or 'nothing yet'}."
