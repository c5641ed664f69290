"""Where a backbone is cut, and a trained upper part put in place of its own."""

import numpy as np
import pytest
from small_backbone import SIZE, small_backbone

from sparcl.backbone import DEFAULT_BACKBONE, find_backbone
from sparcl.errors import SparclError
from sparcl.graph import build_model
from sparcl.graph.builder import GraphBuilder
from sparcl.instant.upper_part import (
    LATENT,
    cut_of,
    lower_graph,
    trained_parameters,
    upper_graph,
    upper_tensors,
)
from sparcl.network.native import NativeNetwork
from sparcl.network.parameters import Parameters
from sparcl.network.torch import TorchNetwork
from sparcl.operations import Conv, GlobalAveragePool, Linear, Relu


@pytest.fixture
def backbone(tmp_path):
    return small_backbone(tmp_path)


def taken(graph, whole):
    """The numbers that a part of a network has in the whole of it."""
    part = Parameters(graph)
    for store, source in ((part.values, whole.values), (part.statistics, whole.statistics)):
        for name in store:
            store[name][...] = source.dense(name)
    return part


def trained_upper(backbone):
    """As a training leaves it: other numbers, one weight sparse."""
    graph = backbone.graph(SIZE, 3)
    parameters = Parameters(upper_graph(graph))
    parameters.initialise(upper_graph(graph), np.random.default_rng(5))
    parameters.set_index({"stage4.block2.conv1.weight": np.arange(0, 500, 2)})
    return upper_tensors(graph, parameters)


@pytest.mark.parametrize("model", ["resnet18", "convnet", "mobilenet_v2", "imagenet_resnet18"])
def test_the_two_parts_are_the_whole(model):
    """Against torch, which runs the whole network and both parts by itself."""
    graph = build_model(model, (3, 32, 32), 3, 8)
    whole = Parameters(graph)
    whole.initialise(graph, np.random.default_rng(0))
    images = np.random.default_rng(1).normal(size=(2, 3, 32, 32)).astype(np.float32)
    lower, upper = lower_graph(graph), upper_graph(graph)
    latents = TorchNetwork(lower, taken(lower, whole)).predict(images)
    logits = TorchNetwork(upper, taken(upper, whole)).predict(latents.reshape(2, *upper.input_shape))
    np.testing.assert_allclose(logits, TorchNetwork(graph, whole).predict(images), rtol=1e-5, atol=1e-6)
    shares = [sum(part.macs_of(node) for node in part) / graph.macs() for part in (lower, upper)]
    assert sum(shares) == pytest.approx(1)
    assert 0 < shares[1] <= 0.5 or model == "convnet"  # which has no place with less above it


def test_the_packaged_one_is_cut_at_the_end_of_a_block():
    graph = find_backbone(DEFAULT_BACKBONE).graph(128)
    assert graph.nodes[cut_of(graph)].name == "features.10.add"
    assert lower_graph(graph).nodes[-1].name == LATENT


def test_a_network_without_a_single_map_in_the_middle_has_no_upper_part():
    build = GraphBuilder((3, 16, 16))
    x = build("relu", Relu(), build("conv", Conv(4), build.input))
    graph = build.finish(build("classifier", Linear(2), build("pool", GlobalAveragePool(), x)))
    with pytest.raises(SparclError, match="no upper part"):
        cut_of(graph)


def test_a_trained_upper_part_changes_nothing_below_it(backbone):
    upper = trained_upper(backbone)
    found, own = trained_parameters(backbone, SIZE, upper), backbone.parameters(SIZE)
    above = {name.partition(".")[2] for name in upper}
    assert above
    for store, before in ((found.values, own.values), (found.statistics, own.statistics)):
        for name in store:
            kind = "parameters" if store is found.values else "statistics"
            expected = upper[f"{kind}.{name}"] if name in above else before[name]
            np.testing.assert_array_equal(store[name], expected)
    np.testing.assert_array_equal(found.index["stage4.block2.conv1.weight"], np.arange(0, 500, 2))
    assert not any(name.startswith(backbone.graph(SIZE).classifier.name) for name in above)
    assert not any(name.startswith(("stem", "stage1")) for name in above)


def test_the_engine_and_torch_agree_on_the_features_of_a_trained_upper_part(backbone):
    graph, parameters = backbone.graph(SIZE), trained_parameters(backbone, SIZE, trained_upper(backbone))
    images = np.random.default_rng(1).normal(size=(3, 3, SIZE, SIZE)).astype(np.float32)
    engine = NativeNetwork(graph, parameters).features(images)
    np.testing.assert_allclose(engine, TorchNetwork(graph, parameters).features(images), rtol=1e-4, atol=1e-5)
    assert np.abs(engine - NativeNetwork(graph, backbone.parameters(SIZE)).features(images)).max() > 0.01


def tampered(upper, name, value):
    return {**upper, name: value(upper[name].copy())}


def _with_nan(array):
    array.flat[0] = np.nan
    return array


@pytest.mark.parametrize(
    "change",
    [
        lambda upper: {name: upper[name] for name in list(upper)[1:]},
        lambda upper: {**upper, "parameters.stem.conv.weight": np.zeros((8, 3, 3, 3), np.float32)},
        lambda upper: {**upper, "parameters.classifier.weight": np.zeros((1, 64), np.float32)},
        lambda upper: tampered(upper, "parameters.stage4.block2.bn1.weight", _with_nan),
        lambda upper: tampered(upper, "parameters.stage4.block2.bn1.weight", lambda a: a[:-1]),
        lambda upper: tampered(upper, "statistics.stage4.block2.bn1.running_var", lambda a: a - 2),
        lambda upper: tampered(upper, "index.stage4.block2.conv1.weight", lambda a: a[::-1]),
        lambda upper: tampered(upper, "index.stage4.block2.conv1.weight", lambda a: a + 10**6),
        lambda upper: tampered(upper, "index.stage4.block2.conv1.weight", lambda a: a[:-1]),
    ],
)
def test_an_upper_part_that_no_training_gave_is_refused(backbone, change):
    upper = trained_upper(backbone)
    trained_parameters(backbone, SIZE, upper)
    with pytest.raises((ValueError, KeyError)):
        trained_parameters(backbone, SIZE, change(upper))
