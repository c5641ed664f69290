"""Networks that everyone knows, traced from torch modules and trained, evaluated and exported on the engine.

The reference is torch in float64. Where a gradient has a kink, float32 and float64 rightly take different sides of it
now and then: norms are shifted so that most numbers lie away from the kinks, and gradients are compared for the first
of a few draws in which nothing lies too near. Everything else is compared for every draw.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from comparing import TOLERANCE, Results, copy_of, random_batch, run
from known_networks import EfficientNetLite0, MobileNetV2, SqueezeNet11, Vgg11Bn, resnet18, resnet34
from torch import nn

import sparcl
from random_graphs import random_parameters
from sparcl import _engine
from sparcl.deploy.onnx import write_onnx
from sparcl.deploy.writer import Preprocessing, write_model
from sparcl.graph import Graph, build_model
from sparcl.network import Parameters, Sgd
from sparcl.network.native import NativeNetwork
from sparcl.network.parameters import FlatStore
from sparcl.network.torch import TorchNetwork
from sparcl.operations import BatchNorm, Conv, Relu, Relu6
from sparcl.sparsity.layers import default_layers

CLASSES = 10
DRAWS = 5


@dataclass(frozen=True)
class Known:
    make: Callable[..., nn.Module]
    published: int  # parameters of the published network, for 1000 classes
    width: int  # of the networks that are tested
    size: int = 64
    batches: tuple[int, ...] = (6, 17)
    dropout: bool = True

    def module(self, **options: Any) -> nn.Module:
        torch.manual_seed(0)
        return self.make(classes=CLASSES, width=self.width, **options)

    @property
    def shape(self) -> tuple[int, int, int]:
        return 3, self.size, self.size


def lite0_padded_as_in_tensorflow(**options: Any) -> nn.Module:
    return EfficientNetLite0(size=64, same=True, **options)


def vgg11_bn(classes: int, width: int, **options: Any) -> nn.Module:
    return Vgg11Bn(classes, width, hidden=16 * width, **options)


KNOWN = {
    "mobilenet_v2": Known(MobileNetV2, 3_504_872, 8),
    "efficientnet_lite0": Known(EfficientNetLite0, 4_652_008, 8),
    "efficientnet_lite0, same": Known(lite0_padded_as_in_tensorflow, 4_652_008, 8),
    "resnet18": Known(resnet18, 11_689_512, 16, dropout=False),
    "resnet34": Known(resnet34, 21_797_672, 8, dropout=False),
    # 7x7 pixels must be left to pool. Norms of such large maps need no more than one image.
    "vgg11_bn": Known(vgg11_bn, 132_868_840, 4, size=224, batches=(1, 3)),
    "squeezenet1_1": Known(SqueezeNet11, 1_235_496, 16, batches=(1, 5, 33)),
}
every_network = pytest.mark.parametrize("name", KNOWN)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """These tensors are small: several threads would take several times as long."""
    before, engines = torch.get_num_threads(), _engine.threads()
    torch.set_num_threads(1)
    _engine.set_threads(2)
    yield
    torch.set_num_threads(before)
    _engine.set_threads(engines)


@cache
def traced(name: str) -> Graph:
    known = KNOWN[name]
    return sparcl.from_torch(known.module(), known.shape)[0]


def parameters_for(
    graph: Graph, sparsity: float | str, generator: np.random.Generator, shifted: bool = True
) -> Parameters:
    """Random; `shifted`: with most numbers between the kinks of what follows a norm."""
    weights = [f"{layer}.weight" for layer in default_layers(graph)]
    parameters = random_parameters(graph, dict.fromkeys(weights, sparsity), generator)
    if shifted:
        shift_norms(graph, parameters.values, generator)
    if not any(isinstance(node.op, BatchNorm) for node in graph):  # what a norm does not keep large must be so itself
        for node in graph:
            if isinstance(node.op, Conv):
                weight = f"{node.name}.weight"
                parameters.values[weight][...] *= 2**0.5 if weight in parameters.index else 6**0.5
    return parameters


def shift_norms(graph: Graph, values: FlatStore, generator: np.random.Generator) -> None:
    for node in graph:
        for kind, low, high in ((Relu6, 1.5, 4.5), (Relu, 0.5, 2.5)):
            if isinstance(node.op, kind) and isinstance(graph[node.inputs[0]].op, BatchNorm):
                bias = f"{node.inputs[0]}.bias"
                values[bias][...] = generator.uniform(low, high, values[bias].shape)


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE * np.abs(expected).max())


def gradients(parameters: Parameters) -> Results:
    return Results({name: parameters.gradients[name].copy() for name in parameters.gradients})


def statistics(parameters: Parameters) -> Results:
    return Results({name: parameters.statistics[name].copy() for name in parameters.statistics})


def assert_gradients(draw: Callable[[np.random.Generator], tuple[Results, Results]]) -> None:
    """Those of one of a few draws must agree; a draw may have numbers too near to a kink, a mistake is in all."""
    wrong = []
    for seed in range(DRAWS):
        found, expected = draw(np.random.default_rng(seed))
        errors = found.errors(expected)
        if all(error <= TOLERANCE for error in errors.values()):
            return
        wrong.append(max(errors.items(), key=lambda item: item[1]))
    raise AssertionError(f"relative errors: {wrong}")


# ------------------------------------------------------------------------------------------------ what the networks are


@every_network
def test_it_is_the_published_network(name):
    with torch.device("meta"):
        module = Vgg11Bn() if name == "vgg11_bn" else KNOWN[name].make()
    assert sum(parameter.numel() for parameter in module.parameters()) == KNOWN[name].published


BUILDERS = {"mobilenet_v2": (MobileNetV2, 32), "imagenet_resnet18": (resnet18, 64), "imagenet_resnet34": (resnet34, 64)}


@pytest.mark.parametrize("factor", [1, 0.75, 1.5])
@pytest.mark.parametrize("name", BUILDERS)
def test_a_builder_makes_what_is_traced(name, factor):
    make, width = BUILDERS[name]
    width = round(width * factor)
    module = make(classes=CLASSES, width=width)
    graph, parameters = sparcl.from_torch(module, (3, 64, 64))
    built = build_model(name, (3, 64, 64), CLASSES, width)
    for ours, theirs in zip(built, graph, strict=True):
        assert (ours.op, ours.shape) == (theirs.op, theirs.shape), ours.name
        assert built.parameters_of(ours) == graph.parameters_of(theirs)
        assert built.statistics_of(ours) == graph.statistics_of(theirs)
    assert {spec.name for spec in built.parameters()} == {name for name, _ in module.named_parameters()}
    if factor != 1:
        return
    same = Parameters(built)
    for store, other in ((same.values, parameters.values), (same.statistics, parameters.statistics)):
        for tensor in store:
            store[tensor][...] = other[tensor]
    images = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        close(NativeNetwork(built, same).predict(images.numpy()), module.double().eval()(images.double()).numpy())


def names_of(*parts: str) -> list[str]:
    return [name for part in parts for name in part.split()]


def mobilenet_convolutions() -> list[str]:
    """All but the first, in the order in which they run."""
    blocks = [f"features.{number}.conv" for number in range(2, 18)]
    return names_of(
        "features.1.conv.0.0 features.1.conv.1",
        *(f"{block}.0.0 {block}.1.0 {block}.2" for block in blocks),
        "features.18.0",
    )


def lite0_blocks() -> list[str]:
    counts = (1, 2, 2, 3, 3, 4, 1)
    return [f"blocks.{stage}.{block}" for stage, count in enumerate(counts) for block in range(count)][1:]


def residual_convolutions(*counts: int) -> list[str]:
    blocks = [f"layer{stage}.{block}" for stage, count in enumerate(counts, 1) for block in range(count)]
    return names_of(*(f"{block}.conv1 {block}.conv2" for block in blocks))


def fire_convolutions() -> list[str]:
    fires = [f"features.{place}" for place in (3, 4, 6, 7, 9, 10, 11, 12)]
    return names_of(*(f"{fire}.squeeze {fire}.expand1x1 {fire}.expand3x3" for fire in fires))


LITE0 = names_of("blocks.0.0.conv_pw", *(f"{block}.conv_pw {block}.conv_pwl" for block in lite0_blocks()), "conv_head")
SHORTCUTS = ["layer2.0.downsample.0", "layer3.0.downsample.0", "layer4.0.downsample.0"]
SPARSE = {
    "mobilenet_v2": [
        name
        for name in mobilenet_convolutions()
        if name != "features.1.conv.0.0" and (name.startswith("features.1.") or not name.endswith(".1.0"))
    ],
    "efficientnet_lite0": LITE0,
    "efficientnet_lite0, same": LITE0,
    "resnet18": residual_convolutions(2, 2, 2, 2),
    "resnet34": residual_convolutions(3, 4, 6, 3),
    "vgg11_bn": names_of("features.4 features.8 features.11 features.15 features.18 features.22 features.25"),
    "squeezenet1_1": [*fire_convolutions(), "classifier.1"],
}
DENSE = {
    "mobilenet_v2": ["features.0.0", "features.1.conv.0.0", *(f"features.{block}.conv.1.0" for block in range(2, 18))],
    "efficientnet_lite0": ["conv_stem", "blocks.0.0.conv_dw", *(f"{block}.conv_dw" for block in lite0_blocks())],
    # The padding is the first of two layers there.
    "efficientnet_lite0, same": [
        "conv_stem.1",
        "blocks.0.0.conv_dw.1",
        *(f"{block}.conv_dw.1" for block in lite0_blocks()),
    ],
    "resnet18": ["conv1", *SHORTCUTS],
    "resnet34": ["conv1", *SHORTCUTS],
    "vgg11_bn": ["features.0"],
    "squeezenet1_1": ["features.0"],
}


@every_network
def test_convolutions_that_are_sparse_by_default(name):
    """All with several inputs for each output, but the first one and those that skip pixels."""
    graph = traced(name)
    assert default_layers(graph) == SPARSE[name]
    assert [node.name for node in graph if isinstance(node.op, Conv) and node.name not in SPARSE[name]] == DENSE[name]


# ---------------------------------------------------------------------------------------------- training and evaluation


@every_network
@pytest.mark.parametrize("sparsity", ["dense", 0.75])
def test_a_training_step_is_as_in_the_reference(name, sparsity):
    graph = traced(name)
    for batch in KNOWN[name].batches:

        def draw(generator, batch=batch):
            parameters = parameters_for(graph, sparsity, generator)
            images, d_logits = random_batch(graph, batch, generator)
            exact = TorchNetwork(graph, copy_of(graph, parameters, np.float64))
            network = NativeNetwork(graph, parameters)
            close(run(network, images, d_logits), run(exact, images, d_logits))
            if len(parameters.statistics.flat):
                statistics(parameters).assert_close(statistics(exact.parameters))
            expected = exact.predict(images.astype(np.float64))  # with the new statistics
            close(network.predict(images), expected)
            close(network.predict(images[:1]), expected[:1])
            return gradients(parameters), gradients(exact.parameters)

        assert_gradients(draw)


@every_network
def test_the_engine_does_what_the_module_does(name):
    known = KNOWN[name]
    module = known.module(**({"dropout": 0.0} if known.dropout else {})).double()
    graph, _ = sparcl.from_torch(module, known.shape)
    batch = known.batches[-1]

    def draw(generator):
        parameters = parameters_for(graph, "dense", generator)
        for numbers, tensors in ((parameters.values, "named_parameters"), (parameters.statistics, "named_buffers")):
            given = dict(getattr(module, tensors)())
            assert set(numbers) == {tensor for tensor in given if not tensor.endswith("num_batches_tracked")}
            for tensor in numbers:
                given[tensor].detach()[...] = torch.from_numpy(np.ascontiguousarray(numbers[tensor]))
        images, d_logits = random_batch(graph, batch, generator)
        network = NativeNetwork(graph, parameters)
        module.zero_grad()
        theirs = module.train()(torch.from_numpy(images).double())
        theirs.backward(torch.from_numpy(d_logits).double())
        close(run(network, images, d_logits), theirs.detach().numpy())
        moved = dict(module.named_buffers())
        expected = Results({tensor: moved[tensor].numpy() for tensor in parameters.statistics})
        if expected.tensors:
            statistics(parameters).assert_close(expected)
        with torch.no_grad():
            evaluated = module.eval()(torch.from_numpy(images).double()).numpy()
        close(network.predict(images), evaluated)
        close(network.predict(images[-1:]), evaluated[-1:])
        trained = {f"{tensor}": parameter.grad.numpy() for tensor, parameter in module.named_parameters()}
        return gradients(parameters), Results(trained)

    assert_gradients(draw)


@every_network
@pytest.mark.parametrize("sparsity", ["dense", 0.75])
def test_descent_reduces_the_loss(name, sparsity):
    graph = traced(name)
    generator = np.random.default_rng(0)
    parameters = parameters_for(graph, sparsity, generator, shifted=False)
    network, optimizer = NativeNetwork(graph, parameters), Sgd(parameters, 0.01, momentum=0.8)
    batch = min(12, KNOWN[name].batches[-1])
    images, _ = random_batch(graph, batch, generator)
    labels, losses = generator.integers(0, CLASSES, batch), []
    for _ in range(15):
        logits, context = network.forward(images, momentum=0.0)  # dropout drops the same each time
        odds = np.exp(logits - logits.max(1, keepdims=True))
        odds /= odds.sum(1, keepdims=True)
        losses.append(-np.log(odds[np.arange(batch), labels]).mean())
        network.backward(context, (odds - np.eye(CLASSES)[labels]) / batch)
        optimizer.step()
    assert losses[-1] < 0.9 * losses[0], losses


# --------------------------------------------------------------------------------------------------------------- export


@every_network
def test_exported_it_predicts_the_same(name, tmp_path):
    graph, generator = traced(name), np.random.default_rng(1)
    parameters = parameters_for(graph, 0.75, generator)
    images, _ = random_batch(graph, 5, generator)
    expected = NativeNetwork(graph, parameters).predict(images)
    classes, how = [f"class {number}" for number in range(CLASSES)], Preprocessing((0.5,) * 3, (0.25,) * 3)
    write_model(tmp_path / "m.sparcl", graph, parameters, classes, how)
    np.testing.assert_array_equal(sparcl.load(tmp_path / "m.sparcl").predict(images), expected)


@every_network
def test_onnx_runtime_gives_the_same_logits(name, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    graph, generator = traced(name), np.random.default_rng(2)
    parameters = parameters_for(graph, 0.75, generator)
    images, _ = random_batch(graph, 3, generator)
    classes, how = [f"class {number}" for number in range(CLASSES)], Preprocessing((0.5,) * 3, (0.25,) * 3)
    write_onnx(tmp_path / "m.onnx", graph, parameters, classes, how)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", options, providers=["CPUExecutionProvider"])
    (found,) = session.run(["logits"], {"images": images})
    close(found, NativeNetwork(graph, parameters).predict(images))


# ----------------------------------------------------------------------------------------------------- instruction sets

A_STEP = """
import sys

import numpy as np

from sparcl import _engine
from sparcl.graph import build_model
from sparcl.network import Parameters
from sparcl.network.native import NativeNetwork

given = np.load(sys.argv[1])
_engine.set_threads(2)
graph = build_model("mobilenet_v2", (3, 64, 64), 10, 8)
parameters = Parameters(graph)
parameters.set_index({name.removeprefix("index "): given[name] for name in given if name.startswith("index ")})
parameters.values.flat[...], parameters.statistics.flat[...] = given["values"], given["statistics"]
network = NativeNetwork(graph, parameters)
predicted, alone = network.predict(given["images"]), network.predict(given["images"][:1])
logits, context = network.forward(given["images"])
network.backward(context, given["d_logits"])
found = {"logits": logits, "predicted": predicted, "alone": alone, "gradients": parameters.gradients.flat}
np.savez(sys.argv[2], statistics=parameters.statistics.flat, instruction_set=_engine.instruction_set(), **found)
"""


@pytest.mark.parametrize("instruction_set", _engine.available_instruction_sets())
def test_mobilenet_on_every_instruction_set(instruction_set, tmp_path):
    graph = build_model("mobilenet_v2", (3, 64, 64), CLASSES, 8)

    def draw(generator):
        parameters = parameters_for(graph, 0.75, generator)
        images, d_logits = random_batch(graph, 17, generator)
        index = {f"index {name}": positions for name, positions in parameters.index.items()}
        numbers = {"values": parameters.values.flat, "statistics": parameters.statistics.flat}
        np.savez(tmp_path / "given.npz", images=images, d_logits=d_logits, **numbers, **index)
        files = [str(tmp_path / name) for name in ("given.npz", "found.npz")]
        environment = os.environ | {"SPARCL_ISA": instruction_set}
        subprocess.run([sys.executable, "-c", A_STEP, *files], env=environment, check=True)
        found = np.load(files[1])
        assert found["instruction_set"] == instruction_set
        exact = TorchNetwork(graph, copy_of(graph, parameters, np.float64))
        predicted = exact.predict(images.astype(np.float64))
        close(found["predicted"], predicted)
        close(found["alone"], predicted[:1])
        close(found["logits"], run(exact, images, d_logits))
        parameters.gradients.flat[...], parameters.statistics.flat[...] = found["gradients"], found["statistics"]
        statistics(parameters).assert_close(statistics(exact.parameters))
        return gradients(parameters), gradients(exact.parameters)

    assert_gradients(draw)
