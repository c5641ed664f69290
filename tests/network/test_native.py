"""The native backend against the torch backend in float64, over random graphs; and misuse, which must be refused.

Float32 and float64 rightly disagree where a function has a kink (a ReLU's input within rounding of zero, two near-equal
maxima of a pooling window) and where a result is mostly rounding errors (the norm of an almost constant channel). The
reference watches for both, and torch itself must not be far off in float32; else the numbers are drawn anew.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from comparing import Results, copy_of, random_batch, run
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from random_graphs import Sparsity, convolution_weights, graphs, random_index, random_parameters
from sparcl import _engine
from sparcl.compiler import compile_graph
from sparcl.graph import Graph, GraphBuilder, build_model
from sparcl.network import Parameters, Sgd
from sparcl.network.native import NativeNetwork
from sparcl.network.parameters import Index
from sparcl.network.torch import TorchNetwork
from sparcl.operations import BatchNorm, Conv, GlobalAveragePool, HardSwish, Linear, MaxPool, Relu, Relu6

SOUND = 1e-5  # how far torch in float32 may be off
KINK = 3e-6  # how near to a kink, of the largest element of a map, is too near
CONSTANT = 0.03  # a channel whose deviation is smaller, of its largest element, is too near to constant to normalise


@pytest.fixture(autouse=True, scope="module")
def torch_on_one_thread():
    """These tensors are small: several threads would take several times as long."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def threads_as_before():
    before = _engine.threads()
    yield
    _engine.set_threads(before)


# ---------------------------------------------------------------------------------------------------- random networks


def described(graph: Graph) -> str:
    lines = []
    for node in graph:
        lines.append(f"{node.name} = {node.op}({', '.join(node.inputs)}) -> {node.shape}")
    return "\n    ".join(lines)


@dataclass
class Case:
    graph: Graph
    sparsities: dict[str, Sparsity]
    images: int
    threads: int
    train: bool
    momentum: float | None
    seed: int

    def _repr_pretty_(self, printer, cycle) -> None:
        """How hypothesis shows a failing case."""
        settings = {name: value for name, value in vars(self).items() if name != "graph"}
        printer.text(f"{settings}\n    {described(self.graph)}\n")


@st.composite
def cases(draw) -> Case:
    graph = draw(graphs())
    elements = sum(int(np.prod(node.shape)) for node in graph)
    most = int(np.clip(30_000 // elements, 1, 40))
    train = draw(st.booleans())
    # Over one value there is nothing to normalise, and over a few little is left of the gradient but rounding errors.
    normalised = [int(np.prod(node.shape[1:])) for node in graph if node.op.role == "norm"]
    least = -(-24 // min(normalised)) if train and normalised else 1
    kinds = st.sampled_from([0.5, 0.9, "dense", 0.0, 0.99, "empty rows", "empty"])
    return Case(
        graph,
        {weight: draw(kinds) for weight in convolution_weights(graph)},
        images=draw(st.integers(least, max(least, most))),
        threads=draw(st.integers(1, 4)),
        train=train,
        momentum=draw(st.sampled_from([None, 0.0, 1 / 3])),
        seed=draw(st.integers(0, 999)),
    )


# ----------------------------------------------------------------------------------------------------- the comparison


class Watched(TorchNetwork):
    """Notes whether it came near to what float32 cannot decide."""

    def __init__(self, graph: Graph, parameters: Parameters) -> None:
        super().__init__(graph, parameters)
        self.sound = True

    def _compute(self, node, inputs, train, momentum):
        x = inputs[0].detach()
        near = KINK * x.abs().max()
        kinks = {Relu: (0,), Relu6: (0, 6), HardSwish: (-3, 3)}.get(type(node.op), ())
        for kink in kinks:
            self.sound &= not ((x != kink) & ((x - kink).abs() < near)).any()  # zero itself is zero in both
        if isinstance(node.op, MaxPool):
            op = node.op
            padded = torch.nn.functional.pad(x, (op.kernel,) * 4, value=-torch.inf)  # no matter where windows begin
            windows = torch.nn.functional.unfold(padded.flatten(0, 1)[:, None], op.kernel)
            best, second = windows.topk(2, dim=1).values.unbind(1)
            self.sound &= not ((best != 0) & (best > -torch.inf) & (best - second < near)).any()
        elif node.op.role == "norm" and train:
            channels = x.transpose(0, 1).flatten(1)
            largest = channels.abs().amax(1)
            self.sound &= not ((largest > 0) & (channels.std(1) < CONSTANT * largest)).any()
        return super()._compute(node, inputs, train, momentum)


def poisoned(floats: int) -> _engine.Arena:
    """Memory full of NaN: a number that was never written and is used all the same shows."""
    lanes = _engine.lanes()
    pixels = -(-floats // lanes)
    extent = (pixels, 1, 1, 1, 1)
    steps = [_engine.Step("pack", out=0), _engine.Step("unpack", a=0)]
    program = _engine.Program(_engine.Engine(), lanes, (pixels + 1) * lanes, 2, [(lanes, extent)], steps)
    arena = _engine.Arena((pixels + 1) * lanes)
    nothing = np.zeros(0, np.float32)
    images, logits = np.full((lanes, pixels, 1, 1), np.nan, np.float32), np.empty((lanes, pixels), np.float32)
    program.forward(arena, images, logits, nothing, nothing, nothing, False, 0.0, 1)
    return arena


def poison(network: NativeNetwork, images: int) -> None:
    floats = compile_graph(network.graph, images, _engine.lanes()).arena
    network.give_back(poisoned(floats))


def copies_of(graph: Graph, parameters: Parameters) -> tuple[Watched, TorchNetwork]:
    """The reference, and torch in float32."""
    return Watched(graph, copy_of(graph, parameters, np.float64)), TorchNetwork(graph, copy_of(graph, parameters))


def soundly(seed: int, attempt: Callable[[np.random.Generator], tuple[Watched, Results, Results, Any]]) -> Any:
    """What comes of the first of several draws that float32 can be judged by.

    `attempt` gives the reference network, its results, those of torch in float32, and what to hand on.
    """
    for number in range(60):
        reference, expected, single, rest = attempt(np.random.default_rng([seed, number]))
        if reference.sound and max(single.errors(expected).values()) < SOUND:
            return expected, rest
    return assume(False)


@settings(max_examples=120, suppress_health_check=list(HealthCheck))
@given(cases())
def test_everything_is_as_in_the_reference(case: Case):
    options = {"train": case.train, "momentum": case.momentum}

    def results_of(network, images, d_logits):
        logits = run(network, images, d_logits, **options)
        predictions = network.predict(images.astype(logits.dtype))
        return Results().add(network.parameters, logits=logits, predictions=predictions)

    def attempt(generator):
        parameters = random_parameters(case.graph, case.sparsities, generator)
        batch = random_batch(case.graph, case.images, generator)
        double, single = copies_of(case.graph, parameters)
        return double, results_of(double, *batch), results_of(single, *batch), (parameters, *batch)

    expected, (parameters, images, d_logits) = soundly(case.seed, attempt)
    _engine.set_threads(case.threads)
    network = NativeNetwork(case.graph, parameters)
    poison(network, case.images)
    logits = run(network, images, d_logits, **options)
    predictions = network.predict(images)
    Results().add(parameters, logits=logits, predictions=predictions).assert_close(expected)
    logits, _ = network.forward(images, train=False)
    Results({"logits": predictions}).assert_close(Results({"logits": logits}), 3e-5)


# ------------------------------------------------------------------------------------------- masks, contexts and memory


def resnet(shape: tuple[int, int, int] = (3, 9, 8), width: int = 3) -> Graph:
    return build_model("resnet18", shape, 5, width)


def sparse_network(seed: int = 0, graph: Graph | None = None, sparsity: Sparsity = 0.6) -> tuple[NativeNetwork, Any]:
    """A network of which every second convolution is sparse, and the generator for what else is drawn."""
    graph = graph or resnet()
    generator = np.random.default_rng(seed)
    weights = convolution_weights(graph)[1::2]
    return NativeNetwork(graph, random_parameters(graph, dict.fromkeys(weights, sparsity), generator)), generator


def some_of(index: Index, generator: np.random.Generator, share: float = 0.4) -> Index:
    return np.flatnonzero(generator.random(len(index)) < share)


def gradients_of(network: NativeNetwork, images: NDArray[Any], d_logits: NDArray[Any], **options: Any) -> NDArray[Any]:
    network.parameters.gradients.flat[...] = 0
    run(network, images, d_logits, momentum=0.0, **options)
    return network.parameters.gradients.flat.copy()


@pytest.mark.parametrize("threads", [1, 3])
def test_only_chosen_weights_get_gradients_whichever_are_chosen(threads):
    _engine.set_threads(threads)
    network, generator = sparse_network()
    parameters = network.parameters
    batch = random_batch(network.graph, 18, generator)
    full = gradients_of(network, *batch)
    names = list(parameters.index)
    for step in range(6):
        # Masks come, change and go, and may be empty; those of some layers stay as they were.
        for name in names[step % 2 :: 2]:
            parameters.updated[name] = some_of(parameters.index[name], generator, share=[0.4, 0.0, 0.9][step % 3])
        if step == 4:
            del parameters.updated[names[0]], parameters.updated[names[1]]
        found = gradients_of(network, *batch)
        expected = full.copy()
        for name, chosen in parameters.updated.items():
            frozen = np.setdiff1d(np.arange(len(parameters.index[name])), chosen)
            expected[parameters.values.slices[name]][frozen] = 0
            np.testing.assert_array_equal(found[parameters.values.slices[name]][frozen], 0)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6 * np.abs(full).max())


@pytest.mark.parametrize("with_masks", [False, True])
@pytest.mark.parametrize("shape", [(3, 9, 7), (1, 8, 8), (2, 32, 32)])
def test_dense_gradients_are_those_of_all_positions(shape, with_masks):
    graph = build_model("convnet", shape, 5, 4) if shape[1] < 32 else resnet(shape, 2)
    wanted = convolution_weights(graph)[1:]

    def results_of(network, images, d_logits):
        dtype = network.parameters.values.flat.dtype
        dense = {name: np.full(network.parameters.values.specs[name].shape, 0.25, dtype) for name in wanted}
        logits = run(network, images, d_logits, dense_gradients=dense)
        return Results().add(network.parameters, logits=logits, **dense)

    def attempt(generator):
        kinds = dict(zip(wanted, [0.9, "empty", 0.0, 0.5] * 10, strict=False))
        parameters = random_parameters(graph, kinds, generator)
        if with_masks:
            parameters.updated = {name: some_of(index, generator) for name, index in parameters.index.items()}
        batch = random_batch(graph, 3, generator)
        double, single = copies_of(graph, parameters)
        return double, results_of(double, *batch), results_of(single, *batch), (parameters, *batch)

    expected, (parameters, *batch) = soundly(0, attempt)
    results_of(NativeNetwork(graph, parameters), *batch).assert_close(expected)


def test_gradients_of_several_contexts_add_up_in_any_order():
    graph = build_model("convnet", (2, 7, 6), 4, 3)

    def results_of(network, batches):
        dtype = network.parameters.values.flat.dtype
        passes = [network.forward(images.astype(dtype)) for images, _ in batches]
        for place in (2, 0, 1):
            network.backward(passes[place][1], batches[place][1].astype(dtype))
        logits = {f"logits {place}": passes[place][0] for place in range(3)}
        return Results().add(network.parameters, **logits)

    def attempt(generator):
        parameters = random_parameters(graph, dict.fromkeys(convolution_weights(graph), 0.5), generator)
        batches = [random_batch(graph, images, generator) for images in (5, 17, 5)]
        double, single = copies_of(graph, parameters)
        return double, results_of(double, batches), results_of(single, batches), (parameters, batches)

    expected, (parameters, batches) = soundly(0, attempt)
    results_of(NativeNetwork(graph, parameters), batches).assert_close(expected)


@pytest.mark.parametrize(("width", "sparsity"), [(3, 0.6), (8, "dense")])
def test_a_prediction_between_the_passes_changes_nothing(width, sparsity):
    """Predictions fold norms into weights, and the backward pass computes some maps once more."""
    network, generator = sparse_network(graph=resnet(width=width), sparsity=sparsity)
    parameters = network.parameters
    parameters.statistics.flat[...] = generator.uniform(0.5, 2.0, len(parameters.statistics.flat))
    images, d_logits = random_batch(network.graph, 4, generator)
    found = []
    for look in (lambda: None, lambda: network.predict(images)):
        _, context = network.forward(images, momentum=0.0)
        look()
        network.backward(context, d_logits)
        found.append(parameters.gradients.flat.copy())
        parameters.gradients.flat[...] = 0.0
    np.testing.assert_array_equal(*found)


def test_python_threads_that_share_a_network_wait_for_each_other():
    network, generator = sparse_network(graph=resnet(width=4))
    parameters = network.parameters
    parameters.statistics.flat[...] = generator.uniform(0.5, 2.0, len(parameters.statistics.flat))
    images, _ = random_batch(network.graph, 4, generator)
    expected = network.predict(images)
    done = threading.Event()

    def train() -> None:
        while not done.is_set():
            network.forward(images, momentum=0.0)

    other = threading.Thread(target=train)
    other.start()
    found = [network.predict(images) for _ in range(300)]
    done.set()
    other.join()
    for logits in found:
        np.testing.assert_array_equal(logits, expected)


def test_python_threads_may_use_a_new_network_at_once():
    """Telling the engine where the parameters lie takes many calls, between which other threads may come."""
    network, generator = sparse_network(graph=resnet(width=4))
    images, _ = random_batch(network.graph, 4, generator)
    expected, index = network.predict(images), dict(network.parameters.index)
    found, together = [], threading.Barrier(4, timeout=60)

    def predict() -> None:
        for _ in range(30):
            if together.wait() == 0:
                network.parameters.set_index({name: positions.copy() for name, positions in index.items()})
            together.wait()
            found.append(network.predict(images))

    threads = [threading.Thread(target=predict) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 * 30
    for logits in found:
        np.testing.assert_array_equal(logits, expected)


@pytest.mark.parametrize("pixel", range(4))
def test_what_is_not_a_number_survives_pooling(pixel):
    build = GraphBuilder((1, 2, 2))
    pooled = build("pool", MaxPool(2), build.input)
    graph = build.finish(build("classifier", Linear(2), build("average", GlobalAveragePool(), pooled)))
    parameters = Parameters(graph)
    parameters.initialise(graph, np.random.default_rng(0))
    images = np.ones((2, 1, 2, 2), np.float32)
    images[1, 0, pixel // 2, pixel % 2] = np.nan
    logits = NativeNetwork(graph, parameters).predict(images)
    assert np.isfinite(logits[0]).all() and np.isnan(logits[1]).all()


def test_memory_is_used_again_after_smaller_passes():
    network, generator = sparse_network()
    large, _ = random_batch(network.graph, 4 * _engine.lanes(), generator)
    _, context = network.forward(large)
    arena = context.arena
    del context
    network.predict(large[:1])
    network.forward(large[:1])
    _, context = network.forward(large)
    assert context.arena is arena


def test_a_context_serves_one_backward_pass():
    network, generator = sparse_network()
    images, d_logits = random_batch(network.graph, 4, generator)
    _, context = network.forward(images)
    network.backward(context, d_logits)
    before = network.parameters.gradients.flat.copy()
    with pytest.raises(ValueError, match="backward"):
        network.backward(context, d_logits)
    np.testing.assert_array_equal(network.parameters.gradients.flat, before)


def test_no_backward_pass_after_the_active_weights_have_changed():
    network, generator = sparse_network()
    images, d_logits = random_batch(network.graph, 4, generator)
    _, context = network.forward(images)
    network.parameters.set_index({next(iter(network.parameters.index)): np.arange(5)})
    with pytest.raises(ValueError, match="active weights have changed"):
        network.backward(context, d_logits)
    assert not network.parameters.gradients.flat.any()


def test_a_batch_that_does_not_fit_is_refused_and_leaves_the_network_usable():
    network, generator = sparse_network()
    images, d_logits = random_batch(network.graph, 4, generator)
    expected = run(network, images, d_logits, momentum=0.0)
    for bad in (images[:, :2], images[:, :, :5], images[:, :, :, 1:], images[:0]):
        with pytest.raises(ValueError, match=r"images|needs"):
            network.forward(bad)
        with pytest.raises(ValueError, match=r"images|needs"):
            network.predict(bad)
    _, context = network.forward(images, momentum=0.0)
    with pytest.raises(ValueError, match="gradients"):
        network.backward(context, d_logits[:3])
    np.testing.assert_array_equal(run(network, images, d_logits, momentum=0.0), expected)


def same_bytes(first: NativeNetwork, second: NativeNetwork, images: NDArray[Any], d_logits: NDArray[Any]) -> None:
    logits = [run(network, images, d_logits) for network in (first, second)]
    np.testing.assert_array_equal(*logits)
    predictions = [network.predict(images) for network in (first, second)]
    np.testing.assert_array_equal(*predictions)
    for store in ("gradients", "statistics"):
        np.testing.assert_array_equal(*(getattr(network.parameters, store).flat for network in (first, second)))


def test_with_other_active_weights_a_network_is_as_if_built_anew():
    network, generator = sparse_network()
    graph, parameters = network.graph, network.parameters
    weights = convolution_weights(graph)
    optimizer = Sgd(parameters, 0.05, momentum=0.9)
    for step in range(8):
        changed = weights[step::5]
        kinds = {name: [0.3, 0.8, "empty rows", "empty"][(step + n) % 4] for n, name in enumerate(changed)}
        specs = parameters.values.specs
        parameters.set_index({name: random_index(specs[name].shape, kind, generator) for name, kind in kinds.items()})
        for name in list(parameters.index)[step % 3 :: 3]:
            parameters.updated[name] = some_of(parameters.index[name], generator)
        batch = random_batch(graph, (4, 17)[step % 2], generator)
        same_bytes(network, NativeNetwork(graph, copy_of(graph, parameters)), *batch)
        optimizer.step()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_same_numbers_give_the_same_bytes(threads):
    _engine.set_threads(threads)
    network, generator = sparse_network()
    parameters = network.parameters
    parameters.updated = {name: some_of(index, generator) for name, index in list(parameters.index.items())[::3]}
    same_bytes(
        network,
        NativeNetwork(network.graph, copy_of(network.graph, parameters)),
        *random_batch(network.graph, 37, generator),
    )


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("width", "sparsity"), [(4, 0.7), (8, "dense")])
@pytest.mark.parametrize("together", [1, 3, 64])  # a single image, a few, whole blocks of lanes
def test_a_prediction_does_not_depend_on_the_images_beside_it(threads, width, sparsity, together):
    _engine.set_threads(threads)
    graph = resnet((2, 16, 16), width)
    generator = np.random.default_rng(3)
    parameters = random_parameters(graph, dict.fromkeys(convolution_weights(graph)[1:], sparsity), generator)
    images, _ = random_batch(graph, 192, generator)
    network = NativeNetwork(graph, parameters)
    order = generator.permutation(len(images))
    for compute in (network.predict, network.features):
        once, again = (
            np.concatenate([compute(some[start : start + together]) for start in range(0, len(some), together)])
            for some in (images, images[order])
        )
        np.testing.assert_array_equal(once[order], again)


def test_one_image_and_many_are_predicted_alike():
    """By different kernels, so not to the last bit."""
    network, generator = sparse_network(graph=resnet((2, 16, 16), 8), sparsity=0.7)
    images, _ = random_batch(network.graph, 32, generator)
    alone = np.concatenate([network.predict(image[None]) for image in images])
    np.testing.assert_allclose(network.predict(images), alone, rtol=0, atol=1e-5 * np.abs(alone).max())


def test_a_prediction_notices_every_changed_number():
    network, generator = sparse_network(graph=resnet((2, 8, 8), 4), sparsity=0.5)
    images, _ = random_batch(network.graph, 3, generator)
    for store in (network.parameters.values, network.parameters.statistics):
        for name in store:
            before, numbers = network.predict(images), store[name].copy()
            store[name][...] = 1.5 * numbers + 0.25
            assert not np.array_equal(network.predict(images), before), name
            store[name][...] = numbers
            np.testing.assert_array_equal(network.predict(images), before)


def test_dense_weights_of_many_channels_are_computed_after_winograd():
    network, _ = sparse_network(graph=resnet(width=8))
    network.prepare()
    used = {name for name, layer in network.convolutions.items() if network.engine.uses_winograd(layer)}
    graph, sparse = network.graph, network.parameters.index
    wide = {node.name for node in graph if isinstance(node.op, Conv) and graph[node.inputs[0]].shape[0] >= 8}
    plain = {name for name in wide if (graph[name].op.kernel, graph[name].op.stride) == (3, 1)}
    assert used == {name for name in plain if f"{name}.weight" not in sparse} != set()


def test_gradients_of_two_passes_add_up():
    network, generator = sparse_network()
    batches = [random_batch(network.graph, images, generator) for images in (6, 20)]
    alone = [gradients_of(network, *batch) for batch in batches]
    network.parameters.gradients.flat[...] = 0
    for batch in batches:
        run(network, *batch, momentum=0.0)
    scale = np.abs(sum(alone)).max()
    np.testing.assert_allclose(network.parameters.gradients.flat, sum(alone), rtol=1e-5, atol=1e-6 * scale)


# ----------------------------------------------------------------------------------------- instruction sets and knobs

WITHOUT_TORCH = """
import sys

import numpy as np

from sparcl import _engine
from sparcl.graph import build_model
from sparcl.network import Parameters, Sgd
from sparcl.network.native import NativeNetwork

given, results = np.load(sys.argv[1]), sys.argv[2]
_engine.set_threads(2)
graph = build_model("resnet18", (2, 16, 16), 5, 2)
parameters = Parameters(graph)
parameters.set_index({name.removeprefix("index "): given[name] for name in given if name.startswith("index ")})
parameters.values.flat[...], parameters.statistics.flat[...] = given["values"], given["statistics"]
network = NativeNetwork(graph, parameters)
logits, context = network.forward(given["images"])
network.backward(context, given["d_logits"])
found = {"logits": logits, "gradients": parameters.gradients.flat.copy(), "statistics": parameters.statistics.flat}
found["predictions"] = network.predict(given["images"])
np.savez(results, instruction_set=_engine.instruction_set(), **found)
optimizer = Sgd(parameters, 0.01, momentum=0.9)
for step in range(3):
    optimizer.step()
    logits, context = network.forward(given["images"])
    network.backward(context, logits)
assert np.isfinite(parameters.values.flat).all()
assert "torch" not in sys.modules
"""


@pytest.fixture(scope="module")
def resnet_with_results(tmp_path_factory) -> tuple[Path, Parameters, Results]:
    """A small ResNet-18 on a batch, in a file; and what the reference makes of it."""
    graph = resnet((2, 16, 16), 2)

    def results_of(network, images, d_logits):
        logits = run(network, images, d_logits)
        predictions = network.predict(images.astype(logits.dtype))
        return Results().add(network.parameters, logits=logits, predictions=predictions)

    def attempt(generator):
        sparsities = dict.fromkeys(convolution_weights(graph)[1:], 0.6)
        parameters = random_parameters(graph, sparsities, generator)
        batch = random_batch(graph, 5, generator)
        double, single = copies_of(graph, parameters)
        return double, results_of(double, *batch), results_of(single, *batch), (parameters, *batch)

    expected, (parameters, images, d_logits) = soundly(0, attempt)
    file = tmp_path_factory.mktemp("resnet") / "given.npz"
    numbers = {"values": parameters.values.flat, "statistics": parameters.statistics.flat}
    index = {f"index {name}": positions for name, positions in parameters.index.items()}
    np.savez(file, images=images, d_logits=d_logits, **numbers, **index)
    return file, parameters, expected


@pytest.mark.parametrize("instruction_set", _engine.available_instruction_sets())
def test_every_instruction_set_without_torch(instruction_set, resnet_with_results, tmp_path):
    given, parameters, expected = resnet_with_results
    results = tmp_path / "results.npz"
    environment = os.environ | {"SPARCL_ISA": instruction_set}
    subprocess.run([sys.executable, "-c", WITHOUT_TORCH, str(given), str(results)], env=environment, check=True)
    found = np.load(results)
    assert found["instruction_set"] == instruction_set
    parameters.gradients.flat[...], parameters.statistics.flat[...] = found["gradients"], found["statistics"]
    other = {name: found[name] for name in ("logits", "predictions")}
    Results().add(parameters, **other).assert_close(expected)


def chain(shape: tuple[int, int, int], layers: list[tuple[int, int, int]]) -> Graph:
    """Convolutions (channels, kernel, stride), each with a norm; no ReLU, which may rightly flip."""
    build = GraphBuilder(shape)
    x = build.input
    for number, (channels, kernel, stride) in enumerate(layers):
        x = build(f"norm{number}", BatchNorm(), build(f"conv{number}", Conv(channels, kernel, stride), x))
    return build.finish(build("linear", Linear(5), build("mean", GlobalAveragePool(), x)))


CHAINS = {
    "4x4": chain((3, 8, 8), [(6, 3, 1), (7, 3, 2), (9, 3, 1), (5, 1, 1), (4, 3, 1)]),
    "odd": chain((2, 13, 19), [(5, 3, 1), (6, 1, 1), (9, 3, 2), (4, 1, 2)]),
    "wide": chain((2, 2, 37), [(4, 3, 1), (3, 1, 2), (5, 3, 2), (3, 3, 1)]),
}
SHAPES = range(8)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("graph", CHAINS.values(), ids=CHAINS)
def test_knobs_change_nothing_but_rounding(graph, threads):
    _engine.set_threads(threads)
    generator = np.random.default_rng(0)
    parameters = random_parameters(graph, dict.fromkeys(convolution_weights(graph)[1:], 0.4), generator)
    images, d_logits = random_batch(graph, 18, generator)

    def results_of(network):
        network.parameters.gradients.flat[...] = 0
        logits = run(network, images, d_logits, momentum=0.0)
        return Results().add(network.parameters, logits=logits, predictions=network.predict(images))

    network = NativeNetwork(graph, parameters)
    expected = results_of(network)
    default = [network.engine.knobs(layer) for layer in network.convolutions.values()]
    settings_of_tiles = [(shape, channels) for shape in SHAPES for channels in (1, 3, 99)]
    settings_of_gradients = [(shape, over_batch) for shape in SHAPES for over_batch in (False, True)]
    choices = [(tile, other, None) for tile, other in zip(settings_of_tiles, settings_of_tiles[::-1], strict=True)]
    choices += [(None, None, gradient) for gradient in settings_of_gradients]
    for forward, data, gradient in choices:
        for layer, (own_forward, own_data, own_gradient) in enumerate(default):
            network.engine.set_knobs(layer, forward or own_forward, data or own_data, gradient or own_gradient)
        results_of(network).assert_close(expected, 3e-5)
