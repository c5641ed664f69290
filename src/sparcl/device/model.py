"""What a state says about its network, and predicting with it. Loads only what predicting needs."""

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sparcl import _engine
from sparcl.data.augmentation import Augmentation
from sparcl.data.pictures import Prepare, centre_square
from sparcl.device.kinds import predictor_class
from sparcl.device.prediction import Prediction, ranked
from sparcl.device.states import DIRECTORY as STATES
from sparcl.device.states import States
from sparcl.errors import SparclError
from sparcl.files import Directory
from sparcl.graph import MAX_WIDTH, MODELS, Graph, build_model
from sparcl.network.folding import cut_classifier, engine_nodes, fold
from sparcl.network.restoring import load_network
from sparcl.tensor_files import State
from sparcl.wording import quoted

FORMAT = 1
MAX_CLASSES = 10_000
ATTEMPTS = 20  # to read a state beside somebody who learns and undoes
LARGEST_SCALE = 1e7  # of pixels between 0 and 1, whose deviation is 1e-6 at least


@dataclass(frozen=True)
class Description:
    """The network of a state, the names of its classes, and how pictures are prepared for it."""

    model: str
    width: int
    size: int
    outputs: int  # at least one for each class
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def graph(self) -> Graph:
        return build_model(self.model, (3, self.size, self.size), self.outputs, self.width)

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, **vars(self)}

    @staticmethod
    def from_json(content: Any) -> "Description":
        """Checked: raises ValueError, KeyError or TypeError for anything that no learner has written."""
        if content["format"] != FORMAT:
            raise ValueError(f"it has format {content['format']!r}, and this version reads format {FORMAT}")
        if content["model"] not in MODELS:
            raise ValueError(f"there is no model called {content['model']!r}")
        classes = content["classes"]
        if not isinstance(classes, list) or not all(isinstance(name, str) and name.isprintable() for name in classes):
            raise ValueError("the classes are no list of names")
        if len(set(classes)) != len(classes):
            raise ValueError("two classes have the same name")
        return Description(
            model=content["model"],
            width=_whole(content["width"], 1, MAX_WIDTH),
            size=_whole(content["size"], 8, 1024),
            outputs=_whole(content["outputs"], max(1, len(classes)), MAX_CLASSES),
            classes=tuple(classes),
            mean=_channels(content["mean"], -LARGEST_SCALE),
            std=_channels(content["std"], 1 / LARGEST_SCALE),
        )


class Described(Protocol):
    """What every state says of itself."""

    @property
    def size(self) -> int: ...
    @property
    def classes(self) -> tuple[str, ...]: ...


class AnyPredictor(Protocol):
    """What every kind of learner predicts with."""

    @property
    def description(self) -> Described: ...
    @property
    def prepare(self) -> Prepare: ...
    @property
    def batch(self) -> int: ...
    def predict(self, images: NDArray[np.uint8], always: bool = False) -> list[Prediction]: ...


class Predictor:
    """The network of a state, ready to predict."""

    def __init__(self, tensors: Mapping[str, NDArray[Any]], state: State) -> None:
        self.description = Description.from_json(state["network"])
        self.graph = self.description.graph()
        wanted = [name for name in tensors if name.startswith(("parameters.", "statistics.", "index."))]
        self.parameters = load_network(self.graph, {name: tensors[name] for name in wanted})
        classes = len(self.description.classes)
        self._model = _engine.Model.from_nodes(engine_nodes(cut_classifier(fold(self.graph, self.parameters), classes)))
        self.prepare = centre_square(self.description.size)
        self._normalise = Augmentation(0, False, self.description.mean, self.description.std)
        #: As many pictures as the engine computes at once anyway.
        self.batch = max(1, _engine.lanes())

    def predict(self, images: NDArray[np.uint8], always: bool = False) -> list[Prediction]:
        """Of pictures [n, 3, size, size]; the time is that of the network alone. It always names a class."""
        predictions: list[Prediction] = []
        for first in range(0, len(images), self.batch):
            some = np.ascontiguousarray(images[first : first + self.batch])
            prepared = self._normalise.test(some, np.arange(len(some)))
            logits = np.empty((len(some), len(self.description.classes)), np.float32)
            start = time.perf_counter()
            self._model.predict(prepared, logits, _engine.threads())
            predictions += ranked(logits, self.description.classes, 1e3 * (time.perf_counter() - start))
        return predictions


def check_learner(directory: Path) -> None:
    """That there is one, however whole it may be."""
    if directory.is_file():
        raise SparclError(f"{directory} is a file, not a learner's directory.")
    if not directory.exists():
        raise SparclError(f"{directory} does not exist. A learner is made with: sparcl new {quoted(directory)}")
    if not (directory / "settings.json").is_file():
        raise SparclError(
            f"{directory} is not a learner: it has no settings.json. Make one with: sparcl new {quoted(directory)}"
        )
    if not (directory / "states").is_dir():
        raise SparclError(
            f"{directory} is a run, not a learner. Export what it learned: "
            f"sparcl export {quoted(directory)} model.sparcl"
        )


@dataclass(frozen=True)
class OpenedState:
    """A predictor, and which file it was read from."""

    predictor: AnyPredictor
    identity: tuple[int, ...]


def open_predictor(directory: Path) -> AnyPredictor:
    """The last committed state, also while something is being learned."""
    return open_state(directory).predictor


def open_state(directory: Path, known: OpenedState | None = None) -> OpenedState:
    """The last committed state; `known` if that is still the one. A state may vanish while it is looked for."""
    for _ in range(ATTEMPTS):
        check_learner(directory)
        with contextlib.suppress(FileNotFoundError), Directory.open(directory / STATES) as opened:
            states = States(opened)
            number = states.newest()
            if not number:
                raise SparclError(
                    f"{directory} has learned nothing yet. Begin with: sparcl learn {quoted(directory)} FOLDER FOLDER"
                )
            identity = states.identity(number)
            if known is not None and known.identity == identity:
                return known
            with states.open(number) as sealed:
                return OpenedState(predictor_class(sealed.state.get("kind"))(sealed, sealed.state), identity)
    raise changing(directory)


def changing(directory: Path) -> SparclError:
    return SparclError(f"{directory} is changing too fast to be read. Try again.")


def _whole(value: Any, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{value!r} stands where a number from {least} to {most} is expected")
    return value


def _channels(values: Any, above: float) -> tuple[float, ...]:
    numbers = tuple(float(value) for value in values)
    if len(numbers) != 3 or not all(above < number < LARGEST_SCALE for number in numbers):
        raise ValueError("the mean or the deviation of the channels is impossible")
    return numbers
