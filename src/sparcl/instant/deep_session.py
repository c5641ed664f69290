"""One session of deep learning: from one state to the next, or back to where it was.

    kept pictures ──► some are held out ──► the upper part is trained on the others ──► features of all, taken anew
                                                                                   └──► the held-out ones decide

While it is in progress, `learning/` in the learner's directory holds what was asked for and the last checkpoints. They
hold no pictures: those are in the state that it begins from.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sparcl.checked import Checked, check, plain
from sparcl.device.learner_directory import LearnerDirectory
from sparcl.device.session import SessionListener
from sparcl.errors import SparclError
from sparcl.instant.deepening import Deepening
from sparcl.instant.features import FeatureExtractor
from sparcl.instant.kept import Kept, replaced
from sparcl.instant.photos import from_jpeg
from sparcl.instant.predictor import backbone_of
from sparcl.instant.state import InstantState
from sparcl.instant.upper_part import trained_parameters
from sparcl.instant.verdict import Verdict, check_enough, held_out, judge_deepening
from sparcl.learning.loop import DivergedError, Stopped
from sparcl.seals import sealed, unsealed
from sparcl.tensor_files import UNREADABLE, State, Tensors
from sparcl.wording import quoted

REQUEST = "deepening.json"


class DeepRequest(Checked):
    """What was asked for."""

    base: int  # the state it begins from
    minutes: float | None
    anew: bool  # from the backbone's own weights, not from those that were trained before
    seed: int


@dataclass(frozen=True)
class Deepened:
    """What came of it. `state` is None if pictures that were never trained on say that it would be worse."""

    state: InstantState | None
    verdict: Verdict
    steps: int
    epochs: int
    seconds: float


class DeepSession:
    def __init__(
        self, directory: LearnerDirectory, state: InstantState, request: DeepRequest, listener: SessionListener
    ) -> None:
        self._directory, self._state, self._request, self._listener = directory, state, request, listener
        self._deepening: Deepening | None = None
        self._saved = 0

    def request_stop(self) -> None:
        if self._deepening is not None:
            self._deepening.request_stop()

    def run(self, unknown: float, threads: int, poll: Callable[[], None], resume: bool = False) -> Deepened:
        """Raises Stopped, with a checkpoint saved, if it was asked to stop."""
        start, state = time.perf_counter(), self._state
        kept, size, backbone = state.kept, state.about.size, backbone_of(state.about)
        held = held_out(kept.digests, kept.labels)
        check_enough(held)
        trained = np.flatnonzero(kept.learned & ~held)
        if not resume:
            self._begin()
        saved = self._directory.pending.load(self._listener.noted) if resume else None
        try:
            self._deepening = Deepening(
                backbone,
                size,
                (from_jpeg(kept.jpegs[place], size) for place in trained),
                kept.labels[trained],
                kept.digests[trained],
                listener=self._listener,
                seconds=None if self._request.minutes is None else 60 * self._request.minutes,
                seed=self._request.seed,
                threads=threads,
                upper=state.upper if state.upper and not self._request.anew else None,
                save=self._save,
                resume=saved,
                poll=poll,
            )
        except UNREADABLE as error:
            if saved is None:
                raise
            raise SparclError(
                f"The deep learning session that was interrupted in {self._directory.home.path} cannot be continued "
                f"({error}). Drop it with: sparcl undo {quoted(self._directory.home.path)}"
            ) from error
        try:
            self._deepening.run()
        except Stopped:
            self._deepening.checkpoint()
            raise
        except DivergedError as error:
            self._directory.pending.clear()
            raise SparclError(f"{error} {self._directory.home.path} is as it was before.") from error
        upper = self._deepening.upper()
        features = FeatureExtractor(backbone, size, trained_parameters(backbone, size, upper))
        new = replaced(kept, _features(kept, size, features, poll))
        verdict = judge_deepening(kept.features, new.features, kept.labels, held)
        steps, epochs = self._deepening.steps_done(self._deepening.task), self._deepening.epochs
        seconds = time.perf_counter() - start
        if not verdict.kept:
            return Deepened(None, verdict, steps, epochs, seconds)
        about = {"right_before": verdict.before, "right_after": verdict.after, "pictures": verdict.pictures}
        deeper = replace(state, upper=upper, deepened=about).changed(new, unknown)
        return Deepened(deeper, verdict, steps, epochs, seconds)

    def _begin(self) -> None:
        self._directory.pending.write_content(REQUEST, json.dumps(sealed(plain(self._request))).encode())

    def _save(self, tensors: Tensors, state: State) -> None:
        self._saved += 1
        self._directory.pending.save(int(time.time()) % 10**9 + self._saved, tensors, state)


def read_request(directory: LearnerDirectory) -> DeepRequest:
    """Of the session that was interrupted; raises SparclError if there is none, or it is damaged."""
    path = directory.home.path
    if not directory.pending.begun():
        raise SparclError(f"{path} has no interrupted learning session: there is nothing to resume.")
    try:
        return check(DeepRequest, unsealed(json.loads(directory.pending.read_content(REQUEST))))
    except (*UNREADABLE, SparclError) as error:
        raise SparclError(
            f"The learning session that was interrupted in {path} is damaged. Drop it with: sparcl undo {quoted(path)}"
        ) from error


def _features(
    kept: Kept, size: int, features: FeatureExtractor, poll: Callable[[], None]
) -> "np.ndarray[tuple[int, ...], np.dtype[np.int16]]":
    rows = []
    for jpeg in kept.jpegs:
        poll()
        rows.append(features(from_jpeg(jpeg, size)))
    return np.stack(rows)
