"""Weights of other libraries in our networks: the reference is the logits of the network that they come from."""

import numpy as np
import pytest
import torch
from networks import ResNet18, trained
from safetensors.torch import save_file

import sparcl
from sparcl.errors import SparclError
from sparcl.graph import build_model
from sparcl.network import Parameters
from sparcl.network.native import NativeNetwork

IMAGES = torch.randn(6, 3, 16, 16, generator=torch.Generator().manual_seed(1))


def ours(classes=10, width=4, model="resnet18"):
    graph = build_model(model, (3, 16, 16), classes, width)
    parameters = Parameters(graph)
    parameters.initialise(graph, np.random.default_rng(0))
    return graph, parameters


def assert_same_logits(graph, parameters, network):
    with torch.no_grad():
        expected = network(IMAGES).numpy()
    found = NativeNetwork(graph, parameters).predict(IMAGES.numpy())
    assert np.allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("format", ["pt", "safetensors"])
@pytest.mark.parametrize(
    ("shortcut", "classifier"), [("downsample", "fc"), ("shortcut", "linear"), ("shortcut", "classifier")]
)
@pytest.mark.parametrize("wrapper", ["", "module.", "model.backbone."])
def test_a_resnet_with_the_names_of_other_libraries(tmp_path, format, shortcut, classifier, wrapper):
    network = trained(ResNet18(shortcut=shortcut, classifier=classifier))
    tensors = {f"{wrapper}{name}": tensor for name, tensor in network.state_dict().items()}
    if format == "pt":
        torch.save(tensors, tmp_path / "weights")
    else:
        save_file(tensors, tmp_path / "weights")
    graph, parameters = ours()
    matches = sparcl.load_weights(tmp_path / "weights").copy_to(graph, parameters)
    assert_same_logits(graph, parameters, network)
    assert not matches.unused and not matches.classifier
    assert len(matches.found) == len(graph.parameters()) + len(graph.statistics())


def test_a_state_dict_with_unknown_names_goes_by_order_and_shape(tmp_path):
    network = trained(ResNet18())
    layers = list(dict.fromkeys(name.rpartition(".")[0] for name in network.state_dict()))
    renamed = {
        f"layer_{layers.index(name.rpartition('.')[0])}.{name.rpartition('.')[2]}": tensor
        for name, tensor in network.state_dict().items()
    }
    torch.save(renamed, tmp_path / "weights.pt")
    graph, parameters = ours()
    matches = sparcl.load_weights(tmp_path / "weights.pt").copy_to(graph, parameters)
    assert matches.how == "their order and shapes" and not matches.unused
    assert_same_logits(graph, parameters, network)
    # A safetensors file is sorted by name: its order says nothing.
    save_file(renamed, tmp_path / "weights.safetensors")
    with pytest.raises(SparclError, match=r"is of another network: it begins with layer_\d+"):
        sparcl.load_weights(tmp_path / "weights.safetensors").copy_to(graph, parameters)


def test_a_network_of_ones_own_has_its_names(tmp_path):
    network = trained(ResNet18())
    graph, _ = sparcl.from_torch(network, (3, 16, 16))
    parameters = Parameters(graph)
    torch.save(network.state_dict(), tmp_path / "weights.pt")
    matches = sparcl.load_weights(tmp_path / "weights.pt").copy_to(graph, parameters)
    assert matches.how == "their names"
    assert_same_logits(graph, parameters, network)


@pytest.mark.parametrize("case", ["more classes", "no classifier", "not wanted"])
def test_a_classifier_that_does_not_fit_stays_as_it_was(tmp_path, case):
    network = trained(ResNet18(classes=1000 if case == "more classes" else 10))
    tensors = network.state_dict()
    if case == "no classifier":
        tensors = {name: tensor for name, tensor in tensors.items() if not name.startswith("fc.")}
    torch.save(tensors, tmp_path / "weights.pt")
    graph, parameters = ours()
    before = parameters.copy()
    matches = sparcl.load_weights(tmp_path / "weights.pt").copy_to(graph, parameters, case != "not wanted")
    for name in ("classifier.weight", "classifier.bias"):
        assert np.array_equal(parameters.values[name], before.values[name])
    assert np.array_equal(parameters.values["stage4.block2.conv2.weight"], tensors["layer4.1.conv2.weight"].numpy())
    said = {
        "more classes": "classifier.weight is 1000x32 in the file and 10x32 here",
        "no classifier": "the file has none",
        "not wanted": "classifier keeps its initial values.",
    }
    assert said[case] in matches.classifier and not matches.unused
    assert matches.classifier in list(matches.notes())


def test_what_is_missing_or_left_over_is_named(tmp_path):
    path = tmp_path / "weights.pt"
    tensors = trained(ResNet18()).state_dict()
    graph, parameters = ours()
    torch.save({**tensors, "auxiliary.weight": torch.zeros(3), "auxiliary.bias": torch.zeros(3)}, path)
    matches = sparcl.load_weights(path).copy_to(graph, parameters)
    assert matches.unused == ("auxiliary.weight", "auxiliary.bias")
    assert "Not used: auxiliary.weight, auxiliary.bias." in list(matches.notes())
    absent = ("layer2.0.bn1.running_mean", "layer3.1.conv1.weight")
    torch.save({name: tensor for name, tensor in tensors.items() if name not in absent}, path)
    before = parameters.values.flat.copy()
    with pytest.raises(SparclError, match=r"it lacks stage2.block1.bn1.running_mean, stage3.block2.conv1.weight\.$"):
        sparcl.load_weights(path).copy_to(graph, parameters)
    torch.save({name: tensor for name, tensor in tensors.items() if not name.startswith("layer4.1.")}, path)
    with pytest.raises(SparclError, match=r"it lacks stage4.block2.conv1.weight, .* and 7 more\.$"):
        sparcl.load_weights(path).copy_to(graph, parameters)
    torch.save({"a.weight": torch.zeros(1), "b.weight": torch.zeros(1)}, path)
    with pytest.raises(SparclError, match=r"begins with a.weight, b.weight, this one with stem.conv.weight\.$"):
        sparcl.load_weights(path).copy_to(graph, parameters)
    assert np.array_equal(parameters.values.flat, before)


def test_a_wrong_shape_is_one_line(tmp_path):
    torch.save(trained(ResNet18(width=8)).state_dict(), tmp_path / "weights.pt")
    graph, parameters = ours(width=4)
    with pytest.raises(SparclError) as refused:
        sparcl.load_weights(tmp_path / "weights.pt").copy_to(graph, parameters)
    assert str(refused.value) == (
        f"{tmp_path}/weights.pt does not fit: conv1.weight has shape 8x3x3x3, and stem.conv.weight must have 4x3x3x3."
    )


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("layer1.0.conv1.weight", float("nan"), "has in layer1.0.conv1.weight what is not a number"),
        ("layer1.0.conv1.weight", 1e300, "has in layer1.0.conv1.weight what is not a number"),
        ("bn1.running_var", -0.5, "has a negative variance in bn1.running_var"),
    ],
)
def test_numbers_with_which_nothing_can_be_computed_are_refused(tmp_path, name, value, said):
    tensors = {key: tensor.double() for key, tensor in trained(ResNet18()).state_dict().items()}
    tensors[name].view(-1)[1] = value
    torch.save(tensors, tmp_path / "weights.pt")
    graph, parameters = ours()
    before = parameters.values.flat.copy()
    with pytest.raises(SparclError, match=said):
        sparcl.load_weights(tmp_path / "weights.pt").copy_to(graph, parameters)
    assert np.array_equal(parameters.values.flat, before)


def test_a_weight_of_whole_numbers_is_refused(tmp_path):
    tensors = trained(ResNet18()).state_dict()
    tensors["bn1.weight"] = tensors["bn1.weight"].long()
    torch.save(tensors, tmp_path / "weights.pt")
    with pytest.raises(SparclError, match=r"has in bn1.weight what is not a number"):
        sparcl.load_weights(tmp_path / "weights.pt").copy_to(*ours())


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions_are_converted(tmp_path, kind):
    network = trained(ResNet18())
    torch.save(network.to(kind).state_dict(), tmp_path / "weights.pt")
    graph, parameters = ours()
    sparcl.load_weights(tmp_path / "weights.pt").copy_to(graph, parameters)
    assert_same_logits(graph, parameters, network.float())


def test_a_sparse_network_gets_what_belongs_to_its_active_positions(tmp_path):
    network = trained(ResNet18())
    torch.save(network.state_dict(), tmp_path / "weights.pt")
    graph, parameters = ours()
    name, generator = "stage2.block1.conv2.weight", np.random.default_rng(0)
    size = parameters.values.specs[name].size
    index = np.sort(generator.choice(size, size // 10, replace=False)).astype(np.int32)
    parameters.set_index({name: index})
    sparcl.load_weights(tmp_path / "weights.pt").copy_to(graph, parameters)
    expected = network.layer2[0].conv2.weight.detach().numpy().ravel()[index]
    assert np.array_equal(parameters.values[name], expected) and np.array_equal(parameters.index[name], index)


def test_dropout_has_no_weights_that_a_file_could_lack(tmp_path):
    """Its count of passes is a statistic here, and unknown to torch."""
    graph, parameters = ours(model="mobilenet_v2", width=8)
    own = [*graph.parameters(), *graph.statistics()]
    state = {spec.name: torch.rand(spec.shape) for spec in own if not spec.name.endswith(".passes")}
    assert len(state) == len(own) - 1
    torch.save(state, tmp_path / "mobilenet.pt")
    matches = sparcl.load_weights(tmp_path / "mobilenet.pt").copy_to(graph, parameters)
    assert matches.found.keys() == state.keys() and not matches.unused
    assert np.array_equal(parameters.values["features.18.0.weight"], state["features.18.0.weight"].numpy())
