"""The weights that a learner starts from: a copy in its own directory, so that it needs nothing from elsewhere.

    states/initial.safetensors    all of the network but the classifier, which belongs to the classes that it will learn

It stays there: whoever undoes the first learning session goes back to it.
"""

from collections.abc import Callable

import numpy as np

from sparcl import tensor_files
from sparcl.checked import plain
from sparcl.device.states import States
from sparcl.errors import SparclError
from sparcl.graph import Graph
from sparcl.learning.start_weights import WeightsSettings, chosen_weights
from sparcl.network import Parameters
from sparcl.network.restoring import network_tensors, part
from sparcl.tensor_files import UNREADABLE, Tensors

FILE = "initial.safetensors"


def read_initial(chosen: WeightsSettings, graph: Graph, note: Callable[[str], None]) -> Tensors:
    """What a network of this graph takes over from the chosen file; `note` is told about it."""
    parameters = Parameters(graph)
    matches = chosen_weights(chosen).copy_to(graph, parameters, with_classifier=False)
    for line in matches.notes():
        note(f"Weights of {chosen.file}: {line}")
    return {name: array for name, array in network_tensors(parameters).items() if _short(name) in matches.found}


def write_initial(states: States, tensors: Tensors, chosen: WeightsSettings) -> None:
    with states.directory.writer(FILE) as file:
        tensor_files.write(file, tensors, {"weights": plain(chosen)})


def begin_with_initial(states: States, graph: Graph, parameters: Parameters) -> None:
    """Fill a network that has its initial values, and no masks yet."""
    try:
        with states.directory.open_file(FILE) as file:
            tensors, _ = tensor_files.read(file)
        stores = {"parameters.": parameters.values, "statistics.": parameters.statistics}
        kept = {spec.name for spec in graph.parameters_of(graph.classifier)}
        for prefix, store in stores.items():
            found = part(tensors, prefix)
            if found.keys() != set(store) - kept:
                raise ValueError("it is of another network")
            for name, array in found.items():
                if array.shape != store[name].shape or array.dtype != np.float32:
                    raise ValueError(f"{name} is of another network")
                store[name][...] = array
    except UNREADABLE as error:
        path = states.directory.path / FILE
        raise SparclError(f"{path} is damaged or missing: {error}. Make a new learner.") from error


def _short(name: str) -> str:
    return name.partition(".")[2]
