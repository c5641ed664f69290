"""Safetensors files of anybody: the reference is the package that defines them."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import sparcl
from sparcl.errors import SparclError

KINDS = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool)


def test_every_type_of_numbers(tmp_path):
    path = tmp_path / "weights.safetensors"
    tensors = {f"{kind}.{shape}": torch.randn(shape).mul(9).abs().to(kind) for kind in KINDS for shape in ((), (2, 3))}
    save_file({**tensors, "empty": torch.zeros(0, 3)}, path, {"format": "pt"})
    found, expected = sparcl.load_weights(path), load_file(path)
    assert set(found) == set(expected) and len(found) == 2 * len(KINDS) + 1
    for name, tensor in expected.items():
        reference = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
        assert found[name].dtype == reference.dtype and np.array_equal(found[name], reference), name
    with pytest.raises(KeyError):
        found["absent"]


def written(path, header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def entry(shape=(2,), start=0, end=8, dtype="F32"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}


def test_headers_that_lie_are_refused_in_one_line(tmp_path):
    path = tmp_path / "weights.safetensors"
    written(path, {"a": entry()}, bytes(8))
    assert np.array_equal(sparcl.load_weights(path)["a"], np.zeros(2))
    for header, data, said in (
        (b"{", b"", "neither a safetensors file"),
        (b"{}", b"x", "not as long as its header says"),
        (b"{" * 100_000, b"", "not JSON"),
        (b'{"a":' + b"[" * 100_000, b"", "not JSON"),
        (b'{"a": [' + b"[]," * 400_000 + b"[]]}", b"", "more than 100,000 tensors"),
        (b'{"a": 1' + b"0" * 5000 + b"}", b"", "not JSON"),
        (b'{"a": "\xff"}', b"", "not JSON"),
        (b'{"a": {}, "a": {}}', b"", "the same name"),
        ({"a": []}, b"", "does not say what a is"),
        ({"a": entry(dtype="F4")}, bytes(8), "type F4"),
        ({"a": entry(dtype=["F32"])}, bytes(8), "type"),
        ({"a": entry(shape=(3,))}, bytes(8), "not as large as its shape says"),
        ({"a": entry(shape=(2**39, 2**39))}, bytes(8), "not as large as its shape says"),
        ({"a": entry(shape=(2**62,))}, bytes(8), "impossible shape"),
        ({"a": entry(shape=(-2,))}, bytes(8), "impossible shape"),
        ({"a": entry(shape=(2.0,))}, bytes(8), "impossible shape"),
        ({"a": entry(shape=(1,) * 9)}, bytes(8), "possible shape"),
        ({"a": entry(start=8, end=16)}, bytes(8), "gaps between them"),
        ({"a": entry(start=-8, end=0)}, bytes(8), "where a lies"),
        ({"a": entry(), "b": entry()}, bytes(8), "overlap"),
        ({"a": entry(), "b": entry(start=12, end=20)}, bytes(20), "gaps between them"),
        ({"a": entry()}, bytes(4), "not as long as its header says"),
        ({"__metadata__": {"a": 1}}, b"", "texts in its header"),
        ({"__metadata__": []}, b"", "texts in its header"),
        ({"a\n\x1b[31m" + "b" * 1000: []}, b"", r"does not say what a\\n\\x1b"),
    ):
        written(path, header, data)
        with pytest.raises(SparclError, match=said) as refused:
            sparcl.load_weights(path)
        assert "\n" not in str(refused.value) and len(str(refused.value)) < 400
    path.write_bytes((1 << 40).to_bytes(8, "little") + b"{}")
    with pytest.raises(SparclError, match="longer than possible"):
        sparcl.load_weights(path)
