"""Networks of the user's own as backbones: the reference is the module that they come from, in float64."""

import numpy as np
import pytest
import torch
from known_networks import EfficientNetLite0, MobileNetV2, SqueezeNet11, Vgg11Bn, resnet18, resnet34
from safetensors.torch import save_file

import sparcl
from sparcl.backbone import find_backbone
from sparcl.backbone.importing import import_backbone
from sparcl.errors import SparclError
from sparcl.graph import build_model
from sparcl.network.native import NativeNetwork
from sparcl.network.parameters import Parameters


def trained(module, seed=0):
    """With statistics and scales of its own."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in module.state_dict().items():
            if name.endswith(("running_mean", "bias")):
                tensor.copy_(torch.randn(tensor.shape, generator=generator) * 0.1)
            elif name.endswith("running_var") or (name.endswith("weight") and tensor.dim() == 1):
                tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.5)
    return module.eval()


def images(size):
    return torch.randn(3, 3, size, size, generator=torch.Generator().manual_seed(1))


def assert_features(backbone, expected, size):
    count = backbone.features
    graph, parameters = backbone.graph(size, count), backbone.parameters(size, count)
    parameters.values[f"{graph.classifier.name}.weight"][...] = np.eye(count, dtype=np.float32)
    found = NativeNetwork(graph, parameters).predict(images(size).numpy())
    assert expected.shape == found.shape and expected.std() > 1e-3
    assert np.abs(found - expected).max() < 3e-3 * np.abs(expected).max()  # of half-precision weights


def before_the_classifier(module, classifier, size):
    """What its last layer reads, seen by a hook."""
    seen = []
    module = module.double().eval()
    handle = module.get_submodule(classifier).register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    with torch.no_grad():
        module(images(size).double())
    handle.remove()
    module.float()
    return seen[0].numpy()


@pytest.mark.parametrize(
    ("module", "classifier", "model", "width"),
    [
        (lambda: MobileNetV2(7, width=8), "classifier.1", "mobilenet_v2", 8),
        (lambda: resnet18(classes=7, width=8), "fc", "imagenet_resnet18", 8),
        (lambda: resnet34(classes=7, width=8), "fc", "imagenet_resnet34", 8),
    ],
)
@pytest.mark.parametrize("suffix", ["pth", "safetensors"])
def test_weights_with_the_names_of_torchvision_are_recognised(tmp_path, module, classifier, model, width, suffix):
    torch.manual_seed(0)
    network = trained(module())
    path = tmp_path / f"weights.{suffix}"
    (torch.save if suffix == "pth" else save_file)(network.state_dict(), path)
    expected = before_the_classifier(network, classifier, 64)
    backbone, notes = import_backbone(path, "mine", size=64)
    assert "tensors were loaded by their names" in notes[0]
    assert_features(backbone, expected, 64)
    again, _ = import_backbone(path, "same", size=64, model=model, width=width)
    assert again.digest == backbone.digest == find_backbone("mine").digest
    wrong = {"imagenet_resnet18": "imagenet_resnet34", "imagenet_resnet34": "imagenet_resnet18"}.get(model, "convnet")
    with pytest.raises(SparclError, match=r"another network|lacks"):
        import_backbone(path, "wrong", model=wrong, width=width)


@pytest.mark.parametrize(
    ("module", "classifier", "size"),
    [
        (lambda: EfficientNetLite0(7, width=8, size=64, same=True), "classifier", 64),
        (lambda: EfficientNetLite0(7, width=8), "classifier", 64),
        (lambda: Vgg11Bn(7, width=4, hidden=16), "classifier.6", 224),
        (lambda: MobileNetV2(7, width=8), "classifier.1", 64),
    ],
)
def test_a_traced_network_keeps_its_features(tmp_path, module, classifier, size):
    torch.manual_seed(0)
    network = trained(module())
    expected = before_the_classifier(network, classifier, size)
    graph, parameters = sparcl.from_torch(network, (3, size, size))
    digest = sparcl.save_backbone(graph, parameters, tmp_path / "own.safetensors", mean=(0.5, 0.5, 0.5))
    backbone, notes = import_backbone(tmp_path / "own.safetensors")
    assert (backbone.name, backbone.digest, backbone.size, notes) == ("own", digest, size, [])
    assert backbone.mean == (0.5, 0.5, 0.5)
    assert_features(backbone, expected, size)


def test_a_layer_in_the_middle_can_make_the_features(tmp_path):
    """SqueezeNet ends with a convolution and no linear layer; its maps before that are averaged."""
    torch.manual_seed(0)
    network = trained(SqueezeNet11(7, width=16))
    with torch.no_grad():
        maps = network.double().features(images(64).double()).numpy()
    graph, parameters = sparcl.from_torch(network.float(), (3, 64, 64))
    last = [node.name for node in graph if node.op.name == "concat"][-1]
    sparcl.save_backbone(graph, parameters, tmp_path / "squeeze.safetensors", features=last)
    backbone, _ = import_backbone(tmp_path / "squeeze.safetensors")
    assert_features(backbone, maps.mean((2, 3)), 64)
    sparcl.save_backbone(graph, parameters, tmp_path / "whole.safetensors")
    assert import_backbone(tmp_path / "whole.safetensors")[0].features == 7
    with pytest.raises(SparclError, match="has no layer called nothing; it ends with"):
        sparcl.save_backbone(graph, parameters, tmp_path / "none.safetensors", features="nothing")


def test_pictures_of_other_sizes(tmp_path):
    """Where layers see all of a picture, only the size that their weights were made for."""
    torch.manual_seed(0)
    network = trained(Vgg11Bn(7, width=4, hidden=16))
    graph, parameters = sparcl.from_torch(network, (3, 224, 224))
    sparcl.save_backbone(graph, parameters, tmp_path / "vgg.safetensors")
    backbone, _ = import_backbone(tmp_path / "vgg.safetensors")
    with pytest.raises(SparclError, match="for pictures of 224 pixels only, not of 448"):
        backbone.graph(448)
    with pytest.raises(SparclError, match=r"does not fit together: .*too small"):
        backbone.graph(16)
    for size in (7, 1025, 64.0, True):
        with pytest.raises(SparclError, match="sides of 8 to 1,024 pixels"):
            backbone.graph(size)


def test_what_cannot_be_a_backbone_is_refused(tmp_path):
    path = tmp_path / "no.safetensors"

    def refusal(graph, **options):
        parameters = Parameters(graph)
        parameters.initialise(graph, np.random.default_rng(0))
        with pytest.raises(SparclError) as refused:
            sparcl.save_backbone(graph, parameters, path, **options)
        assert not path.exists()
        return str(refused.value)

    small = build_model("convnet", (3, 16, 16), 4, 4)
    assert "needs 3 numbers as mean" in refusal(small, mean=(0.5,))
    assert "impossible std" in refusal(small, std=(0.5, 0.5, 0.0))
    assert "impossible mean" in refusal(small, mean=(0.5, 0.5, float("nan")))
    assert "8 to 1,024 pixels, not 4" in refusal(small, size=4)
    parameters = Parameters(small)
    parameters.values["conv2.weight"][0, 0, 0, 0] = np.inf
    with pytest.raises(SparclError, match=r"The network has in conv2\.weight what is not a number"):
        sparcl.save_backbone(small, parameters, path)


def test_pictures_of_one_colour_are_no_photos(tmp_path):
    graph = build_model("convnet", (1, 16, 16), 4, 4)
    with pytest.raises(SparclError, match=r"conv1\.weight .*shape"):
        sparcl.save_backbone(graph, Parameters(graph), tmp_path / "grey.safetensors")
