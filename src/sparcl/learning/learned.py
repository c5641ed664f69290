"""What a run has learned so far: the network of its newest checkpoint, and the classes it knows."""

from collections.abc import Sequence
from dataclasses import dataclass

from sparcl.data import Progress, Stream, load_stream
from sparcl.errors import SparclError, UnfinishedError
from sparcl.graph import Graph, build_model
from sparcl.learning.position import Position
from sparcl.learning.run_directory import RunDirectory
from sparcl.methods import METHODS, Method
from sparcl.network import Parameters
from sparcl.network.restoring import load_network


@dataclass(frozen=True)
class LearnedNetwork:
    graph: Graph
    parameters: Parameters
    class_names: Sequence[str]
    mean: tuple[float, ...]
    std: tuple[float, ...]


def learned_by(directory: RunDirectory, progress: Progress | None = None) -> LearnedNetwork:
    """The data set must be there: it knows the names of the classes and how pictures are normalised."""
    settings = directory.settings()
    method = METHODS[settings.method.name]
    if method.predict is not Method.predict:
        raise SparclError(
            f"{method.name} predicts with more than its network (it needs the task, or stored pictures): it cannot be "
            "exported. Choose a method whose network predicts alone, for example derpp."
        )
    found = directory.load_checkpoint()
    if found is None:
        raise UnfinishedError(f"{directory.path} has no checkpoint yet.", "run", directory.path)
    tensors, state = found
    stream = load_stream(settings.dataset, order_seed=settings.seed, progress=progress, **vars(settings.data))
    if state.get("data") != stream.fingerprint:
        raise SparclError(
            f"The pictures are no longer those that {directory.path} has learned from, so the names of its classes and "
            "how its input is normalised are not known. Put them back to export it."
        )
    graph = build_model(settings.model, stream.image_shape, stream.classes, settings.width)
    try:
        names = _known_classes(stream, method.learns_all_tasks_at_once, Position.from_json(state["position"]))
        parameters = load_network(graph, tensors)
    except (KeyError, ValueError, TypeError, IndexError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise SparclError(f"The checkpoint in {directory.path} does not belong to this run ({reason}).") from error
    if not names:
        raise UnfinishedError(f"{directory.path} has learned nothing yet.", "run", directory.path)
    return LearnedNetwork(graph, parameters, names, stream.augmentation.mean, stream.augmentation.std)


def _known_classes(stream: Stream, at_once: bool, position: Position) -> Sequence[str]:
    begun = position.task + position.begun
    if not begun:
        return ()
    return stream.class_names if at_once else stream.class_names[: stream.tasks[begun - 1].classes.stop]
