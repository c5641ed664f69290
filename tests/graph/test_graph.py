import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from sparcl.errors import SparclError
from sparcl.graph import Graph, GraphBuilder, Node, build_model
from sparcl.network import Parameters
from sparcl.network.torch import TorchNetwork
from sparcl.operations import Conv, Input, MaxPool, Relu


def test_resnet18_has_the_papers_size():
    graph = build_model("resnet18", (3, 32, 32), 10, 64)
    assert graph.parameter_count() == 11_173_962
    assert round(graph.macs() / 1e6, 1) == 555.4
    assert sum(isinstance(node.op, Conv) and node.op.kernel == 3 for node in graph) == 17
    assert sum(isinstance(node.op, Conv) and node.op.kernel == 1 for node in graph) == 3


@pytest.mark.parametrize(
    ("model", "shape", "width"),
    [
        ("resnet18", (3, 64, 64), 8),
        ("convnet", (1, 9, 13), 5),
        ("mobilenet_v2", (3, 40, 56), 16),
        ("imagenet_resnet18", (3, 64, 64), 8),
        ("imagenet_resnet34", (3, 33, 64), 8),
    ],
)
def test_macs_and_shapes_agree_with_what_torch_counts(model, shape, width):
    graph = build_model(model, shape, 7, width)
    network = TorchNetwork(graph, Parameters(graph))
    images = torch.zeros(1, *shape).numpy()
    with FlopCounterMode(display=False) as counter:
        logits = network.predict(images)
    assert counter.get_total_flops() == 2 * graph.macs()
    assert logits.shape == (1, 7)


def test_a_graph_in_the_wrong_order_is_refused():
    with pytest.raises(ValueError, match="before they exist"):
        Graph((Node("a", Relu(), ("b",), (3, 4, 4)), Node("b", Input(), (), (3, 4, 4))))


def test_images_too_small_are_named():
    build = GraphBuilder((3, 1, 1))
    with pytest.raises(ValueError, match="too small"):
        build("pool", MaxPool(), build.input)


def test_an_unknown_model_names_the_known_ones():
    with pytest.raises(SparclError, match="resnet18"):
        build_model("resnet19", (3, 32, 32), 10, 64)


@pytest.mark.parametrize(
    ("model", "width", "parameters"),
    # What their authors publish for 1000 classes.
    [("mobilenet_v2", 32, 3_504_872), ("imagenet_resnet18", 64, 11_689_512), ("imagenet_resnet34", 64, 21_797_672)],
)
def test_networks_for_photos_have_their_authors_size(model, width, parameters):
    assert build_model(model, (3, 224, 224), 1000, width).parameter_count() == parameters
