"""The backbone in the package, against an independent MobileNetV2 in float64 with the same weights."""

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from known_networks import MobileNetV2
from safetensors.numpy import load_file

from sparcl.backbone import DEFAULT_BACKBONE, find_backbone
from sparcl.graph import Graph
from sparcl.network.native import NativeNetwork
from sparcl.network.torch import TorchNetwork

ROOT = Path(__file__).parents[2]


def photos(size, count=4):
    """Smooth pictures, normalised as the backbone wants them."""
    generator = np.random.default_rng(0)
    coarse = generator.integers(0, 256, (count, 3, 8, 8)).astype(np.float32)
    backbone = find_backbone(DEFAULT_BACKBONE)
    pixels = torch.nn.functional.interpolate(torch.from_numpy(coarse), (size, size), mode="bilinear").numpy() / 255
    mean, std = (np.array(levels, np.float32)[:, None, None] for levels in (backbone.mean, backbone.std))
    return ((pixels - mean) / std).astype(np.float32)


def reference(images):
    """Features by torch in float64, with the tensors of the file as another reader has them."""
    module = MobileNetV2(classes=1).double().eval()
    tensors = load_file(find_backbone(DEFAULT_BACKBONE).path)
    state = {name: torch.from_numpy(array.astype(np.float64)) for name, array in tensors.items()}
    missing, unexpected = module.load_state_dict(state, strict=False)
    assert not unexpected
    assert all(name.endswith("num_batches_tracked") or name.startswith("classifier.") for name in missing)
    with torch.no_grad():
        return module.features(torch.from_numpy(images).double()).mean((2, 3)).numpy()


def features(backbone, size, images):
    """What the engine computes, with the features themselves as logits."""
    graph, parameters = backbone.graph(size, 1280), backbone.parameters(size, 1280)
    parameters.values["classifier.weight"][...] = np.eye(1280, dtype=np.float32)
    return NativeNetwork(graph, parameters).predict(images)


def test_its_features_are_those_of_the_reference():
    backbone = find_backbone(DEFAULT_BACKBONE)
    for size in (128, 96):
        images = photos(size)
        expected = reference(images)
        found = features(backbone, size, images)
        assert expected.std() > 0.1  # something is seen
        assert np.abs(found - expected).max() < 1e-3 * np.abs(expected).max()


def test_what_it_is():
    backbone = find_backbone(DEFAULT_BACKBONE)
    assert (backbone.name, backbone.size, backbone.features) == ("mobilenet_v2", 128, 1280)
    assert backbone.digest == hashlib.sha256(backbone.path.read_bytes()).hexdigest()
    assert backbone.path.stat().st_size < 4.8e6
    graph = backbone.graph()
    assert isinstance(graph, Graph) and graph.input_shape == (3, 128, 128) and graph.classes == 1
    assert graph.classifier.inputs == ("pool",) and graph["pool"].shape == (1280,)
    assert not backbone.parameters().values["classifier.weight"].any()


def test_the_notice_names_the_file_and_the_licence():
    notice = find_backbone(DEFAULT_BACKBONE).path.with_name("NOTICE").read_text()
    assert find_backbone(DEFAULT_BACKBONE).digest in notice
    script = (ROOT / "scripts" / "make_backbone.py").read_text()
    source = script.split('SOURCE_DIGEST = "')[1].split('"')[0]
    assert source in notice and "MIT License" in notice and "Ling Evan" in notice


def test_it_can_be_trained_by_both_backends():
    """Its graph and parameters are those of any network."""
    backbone = find_backbone(DEFAULT_BACKBONE)
    images = photos(32, 2)
    logits = []
    for kind in (NativeNetwork, TorchNetwork):
        parameters = backbone.parameters(32, 3)
        parameters.values["classifier.weight"][...] = np.random.default_rng(1).normal(size=(3, 1280)) / 100
        logits.append(kind(backbone.graph(32, 3), parameters).predict(images))
    assert np.allclose(*logits, rtol=0, atol=1e-3 * np.abs(logits[0]).max())


def test_it_loads_nothing_heavy():
    code = (
        "import sys; from sparcl.backbone import find_backbone; find_backbone('mobilenet_v2').parameters();"
        "print([name for name in ('torch', 'rich', 'typer', 'PIL', 'sparcl.learning', 'sparcl.data') "
        "if name in sys.modules])"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "[]"
