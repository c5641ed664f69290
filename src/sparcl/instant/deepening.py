"""Deep learning: the upper part of a backbone is trained by SparCL on latents, from its pretrained weights.

    photos ─► latents of a few views, 8 bits ─► upper part, sparse ─► features ─► linear classifier ─► cross-entropy

The mask begins with the largest pretrained weights, and the classifier with the discriminant in closed form: a random
one would first spoil the features. It is dropped at the end. What remains is the upper part, with which the features of
all photos are computed again.

It is the loop of a run (TDM, DDR, DGM, time plan, checkpoints) around one task of latents. The same photos, seed,
threads and number of steps give the same weights, bit for bit, however often it was interrupted.
"""

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from sparcl import _engine
from sparcl.backbone import Backbone
from sparcl.data import Samples, Task
from sparcl.device.session import SessionListener
from sparcl.device.timed_loop import TimedLoop
from sparcl.errors import SparclError
from sparcl.graph import Graph
from sparcl.instant.discriminant import Discriminant
from sparcl.instant.latents import LatentExtractor, LatentViews
from sparcl.instant.upper_part import trained_parameters, upper_graph, upper_tensors
from sparcl.learning.settings import Settings, resolve
from sparcl.learning.state import capture_loop, check_place, restore_loop
from sparcl.network.backend import available_cores
from sparcl.network.parameters import Parameters
from sparcl.network.restoring import checked_index
from sparcl.tensor_files import State, Tensors

SPARSITY = 0.5  # at 0.75, and twice the rate, two hundred steps ended below where they began
BATCH = 32
STEPS = 1000  # about so many, in whole epochs, if there is time
MAX_EPOCHS = 60
HEAD_SPREAD = 4.0  # deviation of the first logits
AT_ONCE = 32  # latents whose features are computed together

Save = Callable[[Tensors, State], None]


def training_settings(graph: Graph, pictures: int, seed: int, threads: int) -> Settings:
    """How an upper part is trained; `graph` is its."""
    epochs = max(1, min(MAX_EPOCHS, round(STEPS * BATCH / pictures)))
    return resolve(
        {
            "method": {"name": "sgd", "learning_rate": 3e-4, "weight_decay": 0.01},
            "optimizer": "adamw",
            "schedule": {"name": "cosine", "warmup_steps": 20},
            "sparsifier": {"name": "sparcl", "initial_mask": "magnitude", "stage_epochs": max(1, epochs // 10)},
            "sparsity": SPARSITY,
            # Batches of a few classes have other statistics than all the pictures that the backbone has seen.
            "rates": {node.name: 0.0 for node in graph if node.op.role == "norm"},
            "epochs": epochs,
            "batch_size": BATCH,
            "buffer_size": 0,
            "backend": "native",
            "tuning_seconds": 0,
            "checkpoint": {"minutes": 1},
            "seed": seed,
            "threads": threads,
        }
    )


class Deepening(TimedLoop):
    """`pictures` are read once. Whether what comes out is better is not decided here, but in `verdict.py`."""

    def __init__(
        self,
        backbone: Backbone,
        size: int,
        pictures: Iterable[NDArray[np.uint8]],
        labels: NDArray[np.int64],
        digests: NDArray[np.uint64],
        *,
        listener: SessionListener,
        seconds: float | None = None,
        seed: int = 0,
        threads: int = 0,
        upper: Mapping[str, NDArray[np.generic]] | None = None,
        save: Save = lambda tensors, state: None,
        resume: tuple[Tensors, State] | None = None,
        poll: Callable[[], None] = lambda: None,
    ) -> None:
        """`upper`: a trained upper part to go on from, instead of the backbone's own.

        seconds: of everything, with taking the features of all pictures anew at the end. poll: called before every
        picture and step; it raises if work shall stop. resume: what was saved last, with the same pictures and seed;
        raises ValueError, KeyError, TypeError if it does not fit.
        """
        found, places = np.unique(labels, return_inverse=True)  # the classifier is dropped: any order will do
        classes = len(found)
        if classes < 2:
            raise SparclError(
                "One class cannot be learned deeply: there is nothing to tell it from. Learn another one."
            )
        started = time.monotonic()
        _engine.set_threads(threads or available_cores())
        self.backbone, self.listener, self._save, self._ask = backbone, listener, save, poll
        self._whole = backbone.graph(size, classes)
        self._digest = _fingerprint(backbone, size, places, digests, seed)
        extractor = LatentExtractor(backbone, size)
        self.latents = extractor.of_pictures(pictures, digests, seed, lambda _: poll())
        self._extracted = time.monotonic() - started
        graph = upper_graph(self._whole)
        samples = Samples(self.latents.numbers, np.arange(len(places)), places.astype(np.int64))
        self.task = Task(0, range(classes), samples, samples.select(slice(0)), None)
        super().__init__(
            training_settings(graph, len(labels), seed, threads), graph, LatentViews.of(self.latents), [self.task]
        )
        used = 0.0
        if resume is not None:
            used = self._resume(*resume)
        else:
            self._begin_from(trained_parameters(backbone, size, upper) if upper else backbone.parameters(size))
        self.limit_time(seconds, used + time.monotonic() - started)
        self._last_checkpoint = time.monotonic()

    def run(self) -> None:
        """Raises Stopped, with a checkpoint saved, if it was asked to stop."""
        self.listener.started(self.steps_of(self.task), self.steps_done(self.task))
        self.learn(self.task)
        self.check_finite()

    def upper(self) -> Tensors:
        """The upper part as it is now, for `trained_parameters`."""
        return upper_tensors(self._whole, self.network.parameters)

    # The loop

    def poll(self) -> None:
        self._ask()
        super().poll()

    def between_steps(self, task: Task) -> None:
        if time.monotonic() - self._last_checkpoint >= 60 * self.settings.checkpoint.minutes:
            self.checkpoint()
        self.poll()
        self.keep_to_the_time(task)

    def stepped(self) -> None:
        self.time.stepped()
        self.listener.stepped(
            self.position.epoch, self.epochs, self.steps_done(self.task), self.steps_of(self.task), self.method.loss
        )

    def reserved_steps(self) -> float:
        """The features of all pictures: two views each, through both parts."""
        of_a_view = self._extracted / self.latents.numbers[:, :, 0, 0, 0].size
        return 2 + 4 * len(self.task.train) * of_a_view / max(self.time.seconds_a_step, 1e-9)

    # Beginning, stopping and going on

    def _begin_from(self, whole: Parameters) -> None:
        parameters, head = self.network.parameters, f"{self._whole.classifier.name}."
        for store, start in ((parameters.values, whole.values), (parameters.statistics, whole.statistics)):
            for name in store:
                if not name.startswith(head):
                    store[name][...] = start.dense(name)
        self._begin_classifier()
        self.begin_run()

    def _begin_classifier(self) -> None:
        """With the discriminant of the features as they are."""
        features = np.mean([self._features(view) for view in (0, 1)], axis=0)
        lengths = np.linalg.norm(features, axis=1, keepdims=True)
        directions = features / np.where(lengths > 0, lengths, 1.0)
        found = Discriminant.of(directions, self.task.train.labels, len(self.task.classes))
        spread = float(found.log_odds(directions).std())
        scale = HEAD_SPREAD / spread if spread > 0 else 1.0
        name, values = self._whole.classifier.name, self.network.parameters.values
        values[f"{name}.weight"][...] = found.weight * (scale / max(float(lengths.mean()), 1e-12))
        values[f"{name}.bias"][...] = found.bias * scale

    def _features(self, view: int) -> NDArray[np.float64]:
        count = len(self.task.train)
        parts = [
            self.network.features(self.latents.restored(np.arange(start, min(start + AT_ONCE, count)), view))
            for start in range(0, count, AT_ONCE)
        ]
        return np.concatenate(parts).astype(np.float64)

    def checkpoint(self) -> None:
        tensors, state = capture_loop(self)
        state |= {
            "deepening": self._digest,
            "epochs": self.epochs,
            "used": self.time.used,
            "affordable_steps": self.affordable_steps,
        }
        self._save(tensors, state)
        self._last_checkpoint = time.monotonic()

    def _resume(self, tensors: Tensors, state: State) -> float:
        if state["deepening"] != self._digest:
            raise ValueError("it belongs to other pictures")
        checked_index(self.network.graph, tensors)
        self.epochs = int(state["epochs"])
        if not 1 <= self.epochs <= self.settings.epochs:
            raise ValueError("the planned epochs are impossible")
        affordable = state["affordable_steps"]
        self.affordable_steps = None if affordable is None else int(affordable)
        restore_loop(self, tensors, state)
        if self.position.task != 0:
            raise ValueError("it belongs to another task")
        if self.position.begun:
            check_place(self, self.task)
        return float(state["used"])


def _fingerprint(
    backbone: Backbone, size: int, labels: NDArray[np.int64], digests: NDArray[np.uint64], seed: int
) -> str:
    """What must be the same to go on."""
    found = hashlib.sha256(f"{backbone.digest} {size} {seed}".encode())
    found.update(np.ascontiguousarray(labels, np.int64).tobytes())
    found.update(np.ascontiguousarray(digests, np.uint64).tobytes())
    return found.hexdigest()
