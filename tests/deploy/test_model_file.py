"""A model file predicts as the network it was written from, and whatever else it may be is refused in one line."""

import json
import os
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load as load_tensors

import sparcl
from random_graphs import convolution_weights, graphs, random_parameters
from sparcl import _engine
from sparcl.deploy.writer import Preprocessing, gaps_of, model_bytes, write_model
from sparcl.errors import SparclError
from sparcl.graph import GraphBuilder, build_model
from sparcl.network import Parameters
from sparcl.network.folding import fold
from sparcl.network.torch import TorchNetwork
from sparcl.operations import BatchNorm, Conv, GlobalAveragePool, Linear, Relu
from sparcl.sparsity.layers import sparse_layers
from sparcl.sparsity.masks import random_mask


def plain(channels: int) -> Preprocessing:
    return Preprocessing((0.5,) * channels, (0.25,) * channels)


def names(count: int) -> list[str]:
    return [f"class {number}" for number in range(count)]


def reference(graph, parameters, images):
    """Logits in double precision."""
    exact = Parameters(graph, np.float64)
    exact.set_index(dict(parameters.index))
    exact.values.flat[...] = parameters.values.flat
    exact.statistics.flat[...] = parameters.statistics.flat
    return TorchNetwork(graph, exact).predict(images.astype(np.float64))


def small_network(seed=0, image_shape=(3, 8, 8), classes=7):
    graph = build_model("resnet18", image_shape, classes, 4)
    layers = dict.fromkeys(convolution_weights(graph)[1:], 0.7)
    return graph, random_parameters(graph, layers, np.random.default_rng(seed))


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "small.sparcl"
    graph, parameters = small_network()
    write_model(path, graph, parameters, names(7), plain(3))
    return path


@st.composite
def cases(draw):
    graph = draw(graphs())
    kinds = st.sampled_from([0.5, 0.9, "dense", 0.0, 0.99, "empty rows", "empty"])
    sparsities = {weight: draw(kinds) for weight in convolution_weights(graph)}
    return graph, sparsities, draw(st.integers(1, 40)), draw(st.integers(1, 3)), draw(st.integers(0, 9))


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(case=cases())
def test_any_graph_predicts_as_the_reference(case, tmp_path_factory):
    graph, sparsities, images, threads, seed = case
    generator = np.random.default_rng(seed)
    parameters = random_parameters(graph, sparsities, generator)
    batch = generator.normal(size=(images, *graph.input_shape)).astype(np.float32)
    path = tmp_path_factory.getbasetemp() / "any.sparcl"
    write_model(path, graph, parameters, names(graph.classes), plain(graph.input_shape[0]))
    model = sparcl.load(path)
    expected = reference(graph, parameters, batch)
    for chosen in (batch, batch[:1]):
        found = model.predict(chosen, threads)
        assert np.abs(found - expected[: len(chosen)]).max() <= 2e-4 * max(1, np.abs(expected).max())


WITHOUT_ANYTHING = """
import sys, builtins
real = builtins.__import__
def guarded(name, *rest, **more):
    if name.split(".")[0] in ("PIL", "rich", "safetensors", "torch", "typer"):
        raise ImportError(f"{name} must not be needed")
    return real(name, *rest, **more)
builtins.__import__ = guarded
import numpy as np, sparcl
model = sparcl.load(sys.argv[1])
found = np.load(sys.argv[2])
np.savez(sys.argv[3], one=model.predict(found["images"][0]), many=model.predict(found["images"]),
         few=model.predict(found["images"][:5], threads=2), pixels=model.predict(found["pixels"]))
"""


@pytest.mark.parametrize("instruction_set", _engine.available_instruction_sets())
@pytest.mark.parametrize("size", [8, 19, 32])
def test_every_instruction_set_with_numpy_alone(instruction_set, size, tmp_path):
    graph, parameters = small_network(1, (3, size, size))
    write_model(tmp_path / "m.sparcl", graph, parameters, names(7), plain(3))
    pixels = np.random.default_rng(2).integers(0, 256, (21, 3, size, size)).astype(np.uint8)
    images = (pixels.astype(np.float32) / 255 - 0.5) / 0.25
    np.savez(tmp_path / "given.npz", pixels=pixels, images=images)
    files = [str(tmp_path / name) for name in ("m.sparcl", "given.npz", "found.npz")]
    environment = os.environ | {"SPARCL_ISA": instruction_set}
    subprocess.run([sys.executable, "-c", WITHOUT_ANYTHING, *files], env=environment, check=True)
    found, expected = np.load(files[2]), reference(graph, parameters, images)
    for name, logits in {"one": expected[0], "many": expected, "few": expected[:5], "pixels": expected}.items():
        np.testing.assert_allclose(found[name], logits, rtol=0, atol=2e-4 * np.abs(expected).max(), err_msg=name)


@pytest.mark.parametrize(("precision", "tolerance"), [("float16", 3e-3), ("int8", 6e-2)])
def test_coarser_numbers_predict_nearly_the_same(precision, tolerance, tmp_path):
    graph, parameters = small_network(3)
    images = np.random.default_rng(0).normal(size=(9, 3, 8, 8)).astype(np.float32)
    sizes = {
        chosen: write_model(tmp_path / chosen, graph, parameters, names(7), plain(3), chosen)
        for chosen in ("float32", precision)
    }
    expected = reference(graph, parameters, images)
    found = sparcl.load(tmp_path / precision).predict(images)
    assert 0 < np.abs(found - expected).max() <= tolerance * np.abs(expected).max()
    assert sizes[precision] < 0.8 * sizes["float32"]


@pytest.mark.parametrize(("precision", "times"), [("float32", 12), ("float16", 16), ("int8", 26)])
def test_a_sparse_resnet_is_small(precision, times):
    graph = build_model("resnet18", (3, 32, 32), 10, 64)
    parameters, generator = Parameters(graph), np.random.default_rng(0)
    layers = sparse_layers(graph, 0.95)
    parameters.set_index({layer.name: random_mask(layer.size, layer.active(), generator) for layer in layers})
    parameters.values.flat[...] = generator.normal(size=len(parameters.values.flat))
    content = model_bytes(graph, parameters, names(10), plain(3), precision)
    assert times * len(content) <= 4 * graph.parameter_count()


@given(st.lists(st.integers(0, 5000), unique=True).map(sorted))
def test_gaps_lead_back_to_the_positions(positions):
    found, position = [], -1
    for gap in gaps_of(np.array(positions, np.int64)).tolist():  # as docs/model-file.md says
        position += 255 if gap == 255 else gap + 1
        if gap != 255:
            found.append(position)
    assert found == positions


def test_a_network_with_room_for_more_classes_is_cut(tmp_path):
    graph, parameters = small_network(4)
    write_model(tmp_path / "m", graph, parameters, names(3), plain(3))
    images = np.random.default_rng(0).normal(size=(2, 3, 8, 8)).astype(np.float32)
    model = sparcl.load(tmp_path / "m")
    assert model.classes == tuple(names(3))
    np.testing.assert_allclose(model.predict(images), reference(graph, parameters, images)[:, :3], atol=1e-3)


def test_folding_leaves_out_what_nobody_needs():
    build = GraphBuilder((1, 4, 4))
    kept = build("kept", BatchNorm(), build("conv", Conv(3), build.input))
    build("dead", Relu(), build("other", BatchNorm(), build("side", Conv(3), build.input)))
    graph = build.finish(build("linear", Linear(2), build("pool", GlobalAveragePool(), kept)))
    assert [node.name for node in fold(graph, Parameters(graph))] == ["input", "conv", "pool", "linear"]


@pytest.mark.parametrize(
    "images",
    [np.zeros((2, 3, 8, 9), np.uint8), np.zeros((3, 8, 8), np.float64), np.zeros((8, 8), np.uint8), np.zeros(0)],
)
def test_wrong_images_are_refused(exported, images):
    with pytest.raises(SparclError, match="The model takes images of 3 x 8 x 8"):
        sparcl.load(exported).predict(images)


@pytest.mark.parametrize("threads", [0, -1, 100_000])
def test_more_threads_than_can_be_are_refused(exported, threads):
    with pytest.raises(SparclError, match="choose between 1 and 512"):
        sparcl.load(exported).predict(np.zeros((1, 3, 8, 8), np.uint8), threads=threads)


def test_no_images_give_no_logits(exported):
    assert sparcl.load(exported).predict(np.zeros((0, 3, 8, 8), np.uint8)).shape == (0, 7)


def test_the_writer_refuses_what_no_reader_would_take(tmp_path):
    graph, parameters = small_network()

    def refused(match, class_names=names(7), how=plain(3), precision="float32"):  # noqa: B008
        with pytest.raises(SparclError, match=match):
            write_model(tmp_path / "m", graph, parameters, class_names, how, precision)
        assert not (tmp_path / "m").exists()

    refused("7 outputs, but there are 8", names(8))
    refused("unprintable", ["a\nb", *names(6)])
    refused("must have as many numbers", how=plain(1))
    refused("no precision 'int4'", precision="int4")
    parameters.values["stem.conv.weight"][0, 0, 0, 0] = 1e9
    refused("too large for float16", precision="float16")
    parameters.values["stem.conv.weight"][0, 0, 0, 0] = np.nan
    refused("not finite")


# ------------------------------------------------------------------------------------------------------- hostile files


class Edited:
    """The parts of a model file, to be changed and put together again."""

    def __init__(self, path) -> None:
        content = path.read_bytes()
        (length,) = struct.unpack("<Q", content[:8])
        self.header = json.loads(content[8 : 8 + length])
        self.model = json.loads(self.header["__metadata__"]["sparcl"])
        self.data = bytearray(content[8 + length :])

    def bytes(self) -> bytes:
        self.header["__metadata__"]["sparcl"] = json.dumps(self.model)
        header = json.dumps(self.header).encode()
        return resealed(struct.pack("<Q", len(header)) + header + bytes(self.data))

    def node(self, op):
        return next(node for node in self.model["graph"] if node["op"] == op)

    def tensor(self, ending):
        return next(self.header[name] for name in self.header if name.endswith(ending))


def resealed(content: bytes) -> bytes:
    """With the right checksum: somebody changed it on purpose."""
    return content[:-4] + zlib.crc32(content[:-4]).to_bytes(4, "little")


def replaced(file, *change):
    return resealed(file.bytes().replace(*change))


def change(edit):
    return lambda file: (edit(file), file.bytes())[1]


HOSTILE = {
    "empty": (lambda f: b"", "too short"),
    "no header": (lambda f: b"\xff" * 64, "not a model file"),
    "cut off": (lambda f: f.bytes()[:-1], "cut off"),
    "longer": (lambda f: f.bytes() + b"x", "longer than its tensors"),
    "deep": (lambda f: struct.pack("<Q", 99999) + b"[" * 99999, "nested too deeply"),
    "not utf-8": (lambda f: replaced(f, b"class 1", b"class \xc3"), "not UTF-8"),
    "half a character": (lambda f: replaced(f, b"class 1", b"\\\\ud800"), "half a character"),
    "another version": (change(lambda f: f.model.update(version=4)), "another version"),
    "no checksum": (change(lambda f: (f.header.pop("checksum"), f.data.__delitem__(slice(-4, None)))), "no checksum"),
    "checksum elsewhere": (
        change(
            lambda f: f.header.update(checksum=f.header["classifier.bias"], **{"classifier.bias": f.header["checksum"]})
        ),
        "no checksum",
    ),
    "unknown operation": (change(lambda f: f.node("relu").update(op="tanh")), "unknown operation 'tanh'"),
    "class that clears the screen": (change(lambda f: f.model["classes"].__setitem__(0, "\x9b2J")), "control"),
    "class written backwards": (change(lambda f: f.model["classes"].__setitem__(0, "\u202etac")), "control"),
    "thin image": (change(lambda f: f.model["graph"][0].update(shape=[4096, 16384, 1])), "too large"),
    "huge image": (change(lambda f: f.model["graph"][0].update(shape=[3, 9000, 9000])), "too large"),
    "other image": (change(lambda f: f.model["graph"][0].update(shape=[3, 9, 9])), "does not fit its input"),
    "fractions": (change(lambda f: f.model["graph"][0].update(shape=[3, 8.5, 8])), "impossible number"),
    "stride 0": (change(lambda f: f.node("conv").update(stride=0)), "impossible number"),
    "stride 3": (change(lambda f: f.node("conv").update(stride=3)), "unknown kind"),
    "reads itself": (change(lambda f: f.node("relu").update(inputs=[f.node("relu")["name"]])), "come before it"),
    "name twice": (change(lambda f: f.node("relu").update(name=f.node("conv")["name"])), "called"),
    "no end": (change(lambda f: f.model["graph"].pop()), "no layer uses"),
    "few classes": (change(lambda f: f.model["classes"].pop()), "class names"),
    "std 0": (change(lambda f: f.model["preprocessing"].update(std=[0, 1, 1])), "deviation"),
    "std missing": (change(lambda f: f.model["preprocessing"].pop("std")), "no 'std'"),
    "key twice": (lambda f: replaced(f, b'"dtype"', b'"shape"', 1), "key stands there twice"),
    "unknown type": (change(lambda f: f.tensor(".bias").update(dtype="BF16")), "unknown type"),
    "other type": (change(lambda f: f.tensor(".gaps").update(dtype="I8")), "wrong type"),
    "huge tensor": (change(lambda f: f.tensor(".values").update(shape=[2**31, 2**31, 2**31])), "too large"),
    "negative": (change(lambda f: f.tensor(".values").update(shape=[-1])), "impossible number"),
    "overlap": (
        change(lambda f: f.header["stem.conv.bias"].update(data_offsets=f.header["classifier.bias"]["data_offsets"])),
        "does not fill|overlap",
    ),
    "outside": (change(lambda f: f.tensor(".bias").update(data_offsets=[0, 2**40])), "impossible number"),
    "not there": (change(lambda f: f.header.pop("classifier.bias")), "hole|longer|missing"),
    "not finite": (
        change(lambda f: f.data.__setitem__(slice(*f.header["classifier.bias"]["data_offsets"]), b"\xff" * 28)),
        "not finite",
    ),
    "gaps too long": (
        change(
            lambda f: f.data.__setitem__(
                slice(*f.tensor(".gaps")["data_offsets"]),
                b"\xff" * (f.tensor(".gaps")["data_offsets"][1] - f.tensor(".gaps")["data_offsets"][0]),
            )
        ),
        "outside of the weight|fewer positions",
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_file_is_refused_in_one_line(kind, exported, tmp_path):
    make, reason = HOSTILE[kind]
    path = tmp_path / "hostile.sparcl"
    path.write_bytes(make(Edited(exported)))
    with pytest.raises(SparclError, match=reason) as caught:
        sparcl.load(path)
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)


def flips_that_are_read(path, whole, bits):
    """Which of the flipped bits leave a file that loads; whatever is refused is refused in one line."""
    found = []
    for bit in bits:
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            sparcl.load(path)
        except SparclError as error:
            assert "\n" not in str(error)
        else:
            found.append(bit)
    return found


def test_every_flipped_bit_is_noticed(tmp_path):
    build = GraphBuilder((1, 4, 4))
    maps = build("relu", Relu(), build("norm", BatchNorm(), build("conv", Conv(3), build.input)))
    graph = build.finish(build("linear", Linear(2), build("pool", GlobalAveragePool(), maps)))
    whole = model_bytes(graph, Parameters(graph), names(2), plain(1))
    assert flips_that_are_read(tmp_path / "m.sparcl", whole, range(8 * len(whole))) == []


def test_flipped_bits_of_a_larger_file_are_noticed(exported, tmp_path):
    """More of them: python -m benchmarks.state_fuzz."""
    whole = exported.read_bytes()
    bits = np.random.default_rng(0).integers(0, 8 * len(whole), 300).tolist()
    assert flips_that_are_read(tmp_path / "m.sparcl", whole, bits) == []


def test_a_file_of_version_1_has_no_checksum_and_opens(exported, tmp_path):
    file = Edited(exported)
    file.model["version"] = 1
    file.header.pop("checksum")
    header = json.dumps({**file.header, "__metadata__": {"sparcl": json.dumps(file.model)}}).encode()
    path = tmp_path / "old.sparcl"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(file.data[:-4]))
    pixels = np.random.default_rng(0).integers(0, 256, (3, 3, 8, 8)).astype(np.uint8)
    assert (sparcl.load(path).predict(pixels) == sparcl.load(exported).predict(pixels)).all()


def test_a_huge_file_is_refused_before_it_is_read(exported, tmp_path):
    """More bytes than memory may have, nearly all of them a hole in the file."""
    path = tmp_path / "huge.sparcl"
    for content, reason in ((b"", "not valid JSON"), (exported.read_bytes(), "longer than its tensors")):
        path.write_bytes(content)
        os.truncate(path, 3 << 40)
        with pytest.raises(SparclError, match=reason):
            sparcl.load(path)


def test_a_file_whose_name_is_no_text(exported, tmp_path):
    path = tmp_path / "mod\udce8le.sparcl"
    path.write_bytes(exported.read_bytes())
    assert sparcl.load(path).classes == sparcl.load(exported).classes


def test_what_is_no_file_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(SparclError, match="cannot be"):
            sparcl.load(path)


def test_the_tensors_are_safetensors(exported):
    """Any reader of safetensors sees them."""
    tensors = load_tensors(exported.read_bytes())
    assert tensors["classifier.weight"].shape == (7, 32)
    assert tensors["stage1.block1.conv1.gaps"].dtype == np.uint8
