"""Backbone files that lie, with every checksum right: each is refused in one line that says why."""

import io
import itertools
import json

import numpy as np
import pytest
from safetensors.numpy import load_file

import sparcl
from sparcl import tensor_files
from sparcl.backbone import find_backbone
from sparcl.errors import SparclError
from sparcl.graph import build_model
from sparcl.network.parameters import Parameters


@pytest.fixture
def whole(tmp_path):
    """The description and the tensors of a good one."""
    graph = build_model("convnet", (3, 16, 16), 4, 8)
    parameters = Parameters(graph)
    parameters.initialise(graph, np.random.default_rng(0))
    path = tmp_path / "whole.safetensors"
    sparcl.save_backbone(graph, parameters, path)
    header = path.read_bytes()[8 : 8 + int.from_bytes(path.read_bytes()[:8], "little")]
    return json.loads(json.loads(header)["__metadata__"]["state"])["backbone"], load_file(path)


@pytest.fixture
def refusal(home):
    home.mkdir(parents=True)

    def said(about, tensors):
        content = io.BytesIO()
        tensor_files.write(content, tensors, {"backbone": about})
        (home / "mine.safetensors").write_bytes(content.getvalue())
        with pytest.raises(SparclError) as refused:
            find_backbone("mine").parameters()
        assert "\n" not in str(refused.value) and len(str(refused.value)) < 600
        return str(refused.value)

    return said


def test_a_good_one_is_read(whole, home):
    home.mkdir(parents=True)
    content = io.BytesIO()
    tensor_files.write(content, whole[1], {"backbone": whole[0]})
    (home / "mine.safetensors").write_bytes(content.getvalue())
    assert find_backbone("mine").parameters().values["conv1.weight"].any()


@pytest.mark.parametrize(
    ("layer", "change", "reason"),
    [
        (0, {"op": "system"}, "operation that is not known here: system"),
        (0, {"op": "affine"}, "operation that is not known here: affine"),
        (0, {"op": "input"}, "operation that is not known here"),
        (0, {"op": None}, "operation that is not known here"),
        (0, {"kernel": 0}, "impossible kernel: 0"),
        (0, {"kernel": 3.0}, "impossible kernel"),
        (0, {"kernel": True}, "impossible kernel"),
        (0, {"kernel": "3"}, "impossible kernel"),
        (0, {"kernel": 4}, "cannot be run by the engine|the shape"),
        (0, {"stride": 0}, "impossible stride"),
        (0, {"stride": 1000}, "does not fit together|cannot be run by the engine"),
        (0, {"channels": 10**12}, "impossible channels"),
        (0, {"groups": 5}, "does not fit together"),
        (0, {"bias": 1}, "impossible bias"),
        (0, {"bias": True}, "does not have the tensors of its layers"),
        (0, {"more": 1}, "other attributes"),
        (0, {"inputs": []}, "reads 0 layers"),
        (0, {"inputs": ["input", "input"]}, "reads 2 layers"),
        (0, {"inputs": ["conv4"]}, "input that does not exist"),
        (0, {"inputs": "input"}, "does not say what conv1 reads"),
        (0, {"name": "../x\n"}, "name cannot be used"),
        (0, {"name": "conv2"}, "two nodes|input that does not exist"),
        (1, {"epsilon": float("nan")}, "impossible epsilon"),
        (1, {"epsilon": 0.0}, "impossible epsilon"),
        (1, {"momentum": -1.0}, "impossible momentum"),
    ],
)
def test_layers_that_cannot_be(whole, refusal, layer, change, reason):
    about, tensors = whole
    about["layers"][layer].update(change)
    assert any(part in refusal(about, tensors) for part in reason.split("|")), refusal(about, tensors)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"version": 2}, "version 2"),
        ({"size": 4}, "8 to 1,024 pixels"),
        ({"size": 10**9}, "8 to 1,024 pixels"),
        ({"size": None}, "8 to 1,024 pixels"),
        ({"mean": [0.5, 0.5]}, "needs 3 numbers as mean"),
        ({"mean": "abc"}, "needs 3 numbers as mean"),
        ({"std": [0.5, 0.5, 0]}, "impossible std"),
        ({"std": [0.5, 0.5, float("inf")]}, "impossible std"),
        ({"layers": []}, "no list of layers"),
        ({"layers": {}}, "no list of layers"),
        ({"layers": [1]}, "layer that is not described"),
        ({"layers": [{}] * 5000}, "more than 4,096 layers"),
    ],
)
def test_descriptions_that_cannot_be(whole, refusal, change, reason):
    about, tensors = whole
    assert reason in refusal({**about, **change}, tensors)


def test_graphs_that_grow_without_end(whole, refusal):
    about, tensors = whole
    names = ["input", *(f"twice{number}" for number in range(60))]
    doubling = [
        {"name": name, "op": "concat", "inputs": [before, before]} for before, name in itertools.pairwise(names)
    ]
    assert "too large" in refusal({**about, "layers": doubling}, {})
    flat = [{"name": "flat", "op": "flatten", "inputs": ["input"]}]
    assert "3,145,728 features" in refusal({**about, "layers": flat, "size": 1024}, {})
    assert "is a map and not a vector" in refusal({**about, "layers": about["layers"][:3]}, tensors)


@pytest.mark.parametrize(
    ("name", "numbers", "reason"),
    [
        ("conv1.weight", lambda array: array[:, :, :1], "the shape (8, 3, 1, 3), not (8, 3, 3, 3)"),
        ("conv1.weight", lambda array: array.astype(np.int32), "int32 numbers"),
        ("conv1.weight", lambda array: np.full_like(array, np.nan), "what is not a number"),
        ("conv1.weight", lambda array: np.full(array.shape, 1e300), "what is not a number"),
        ("bn1.running_var", lambda array: -array, "negative variance"),
    ],
)
def test_tensors_that_do_not_fit(whole, refusal, name, numbers, reason):
    about, tensors = whole
    assert reason in refusal(about, {**tensors, name: numbers(tensors[name])})


def test_tensors_that_are_missing_or_too_many(whole, refusal):
    about, tensors = whole
    assert "conv2.weight is missing, or too many" in refusal(
        about, {name: array for name, array in tensors.items() if name != "conv2.weight"}
    )
    assert "extra is missing, or too many" in refusal(about, {**tensors, "extra": np.zeros(3, np.float32)})
