"""Writes networks that everyone knows as native/tests/networks_test.cpp reads them, where there is no Python.

    PYTHONPATH=tests:tests/network python -m record_networks DIRECTORY

For each network NAME, dense and sparse, and each DRAW of random numbers:

    NAME.DRAW.numbers        a batch, the parameters, and what float64 torch makes of them in a training step
    NAME.DRAW-LANES.program  the calls with which the native backend describes its layers and its plan to the engine
    NAME.DRAW.sparcl         the model file with the statistics that the step leaves
"""

import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from comparing import TOLERANCE, Results, copy_of, random_batch, run
from test_known_networks import CLASSES, DRAWS, KNOWN, gradients, parameters_for, statistics, traced

from sparcl import _engine
from sparcl.deploy.writer import Preprocessing, write_model
from sparcl.graph import Graph
from sparcl.network import Parameters
from sparcl.network import native as native_backend
from sparcl.network.native import NativeNetwork
from sparcl.network.torch import TorchNetwork

LANES = (4, 8, 16)
RECORDED_DRAWS = 2


class RecordingEngine:
    """Takes the calls that describe layers, and writes them down: a line for each."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._counts = dict.fromkeys(("add_convolution", "add_norm", "add_operation"), -1)

    def __getattr__(self, call: str) -> Any:
        def write(*arguments: Any) -> int:
            self.lines.append(f"{call} {words(arguments)}")
            if call in self._counts:
                self._counts[call] += 1
            return self._counts.get(call, -1)

        return write

    def add_norm(self, channels: int, normalises: bool, epsilon: float = 0.0, momentum: float = 0.0) -> int:
        return self.__getattr__("add_norm")(channels, normalises, epsilon, momentum)

    def add_operation(self, name: str, into: Any, out: Any, attributes: list[int]) -> int:
        return self.__getattr__("add_operation")(name, into, out, len(attributes), attributes)

    def bind_convolution(self, layer: int, offset: int, positions: Any, places: Any = ()) -> None:
        self.__getattr__("bind_convolution")(layer, offset, len(positions), positions, len(places), places)


class RecordingModule:
    """In the place of sparcl._engine, with other lanes than this machine may have."""

    Engine = RecordingEngine

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes

    def lanes(self) -> int:
        return self._lanes

    @staticmethod
    def Step(op: str, activation: str = "none", **numbers: Any) -> str:  # noqa: N802
        names = ("layer", "a", "b", "c", "out", "norm_a", "norm_b", "mask", "state_a", "state_b")
        flags = ("recompute", "write_gated", "accumulate")
        return words([op, activation, [numbers[name] for name in (*names, *flags)]])

    @staticmethod
    def Program(  # noqa: N802
        engine: RecordingEngine, images: int, arena: int, forward_steps: int, maps: list[Any], steps: list[str]
    ) -> None:
        engine.lines.append(f"program {words([images, arena, forward_steps, len(maps), maps, len(steps)])}")
        engine.lines += steps


def words(values: Any) -> str:
    """All numbers and names, however deep they are."""
    if isinstance(values, np.ndarray):
        return " ".join(map("{:.9g}".format if values.dtype.kind == "f" else str, values.ravel().tolist()))
    if isinstance(values, list | tuple):
        return " ".join(filter(None, map(words, values)))
    if isinstance(values, bool | np.bool_):
        return str(int(values))
    return f"{values:.9g}" if isinstance(values, float | np.floating) else str(values)


def program(graph: Graph, parameters: Parameters, images: int, lanes: int) -> str:
    with patch.object(native_backend, "_engine", RecordingModule(lanes)):
        network = NativeNetwork(graph, parameters)
        network.program(images)
    return "\n".join([*network.engine.lines, "end", ""])  # type: ignore[attr-defined]


def tensors(expected: Results, store: Any) -> list[str]:
    """Where each tensor is in the flat array, and how far it may be off."""
    scales = expected.scales()
    places = {name: store.slices[name] for name in store}
    return [f"{name} {at.start} {at.stop} {TOLERANCE * scales[name]:.9g}" for name, at in places.items()]


def record(directory: Path, name: str, graph: Graph, sparsity: float | str, batch: int) -> None:
    """In two draws: other roundings may put a number on the other side of a kink in one of them."""
    drawn = 0
    for seed in range(2 * DRAWS):
        generator = np.random.default_rng(seed)
        parameters = parameters_for(graph, sparsity, generator)
        images, d_logits = random_batch(graph, batch, generator)
        exact = TorchNetwork(graph, copy_of(graph, parameters, np.float64))
        found = copy_of(graph, parameters)
        run(NativeNetwork(graph, found), images, d_logits)
        logits = run(exact, images, d_logits)
        if max(gradients(found).errors(gradients(exact.parameters)).values()) <= TOLERANCE:
            write(directory, f"{name}.{drawn}", exact, parameters, images, d_logits, logits)
            drawn += 1
        if drawn == RECORDED_DRAWS:
            return
    raise AssertionError(f"{name}: the engine and torch agree in too few draws")


def write(
    directory: Path, name: str, exact: TorchNetwork, parameters: Parameters, images: Any, d_logits: Any, logits: Any
) -> None:
    graph = exact.graph
    after = copy_of(graph, parameters)
    after.statistics.flat[...] = exact.parameters.statistics.flat
    arrays = {
        "images": images,
        "d_logits": d_logits,
        "values": parameters.values.flat,
        "statistics": parameters.statistics.flat,
        "expected_logits": logits,
        "expected_gradients": exact.parameters.gradients.flat,
        "expected_statistics": exact.parameters.statistics.flat,
        "expected_predictions": exact.predict(images.astype(np.float64)),
    }
    lines = [f"{key} {array.size} {words(array.astype(np.float32))}" for key, array in arrays.items()]
    described = {
        "gradients": tensors(gradients(exact.parameters), exact.parameters.gradients),
        "statistics": tensors(statistics(exact.parameters), exact.parameters.statistics),
    }
    for key, places in described.items():
        lines += [f"tensors {key} {len(places)}", *places]
    (directory / f"{name}.numbers").write_text("\n".join([*lines, "end", ""]))
    for lanes in LANES:
        (directory / f"{name}-{lanes}.program").write_text(program(graph, parameters, len(images), lanes))
    classes = [str(number) for number in range(CLASSES)]
    write_model(directory / f"{name}.sparcl", graph, after, classes, Preprocessing((0.5,) * 3, (0.25,) * 3))


def main() -> None:
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    _engine.set_threads(1)
    torch.set_num_threads(1)  # these tensors are small
    for name, known in KNOWN.items():
        for sparsity in ("dense", 0.75):
            plain = name.replace(", ", "-")
            record(directory, f"{plain}-{sparsity}", traced(name), sparsity, known.batches[0])


if __name__ == "__main__":
    main()
