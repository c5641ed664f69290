"""State dicts that torch.save wrote, read without unpickling: the reference is torch.load."""

import collections
import io
import os
import pickle
import struct
import zipfile

import numpy as np
import pytest
import torch
from torch import nn

import sparcl
from sparcl.errors import SparclError
from sparcl.weights.file import WeightFile
from sparcl.weights.zip_file import read_entries

FORMATS = {"archive": True, "old": False}


@pytest.fixture(params=FORMATS)
def save(request, tmp_path):
    def saved(content, **options):
        path = tmp_path / "weights.pt"
        torch.save(content, path, _use_new_zipfile_serialization=FORMATS[request.param], **options)
        return path

    return saved


def small_network():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8, 5))
    network[1].running_var.uniform_(0.5, 2)
    return network


def assert_same(path, expected):
    found = sparcl.load_weights(path)
    assert list(found) == list(expected)
    for name, tensor in expected.items():
        wide = tensor.float() if tensor.dtype == torch.bfloat16 else tensor
        reference = wide.detach().numpy()
        assert found[name].dtype == reference.dtype and np.array_equal(found[name], reference), name


def test_a_state_dict(save):
    network = small_network()
    assert_same(save(network.state_dict()), network.state_dict())


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_pickles_of_every_protocol_that_torch_can_write(save, protocol):
    network = small_network()
    assert_same(save(network.state_dict(), pickle_protocol=protocol), network.state_dict())


@pytest.mark.parametrize(
    "kind", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8]
)
def test_every_type_of_numbers(save, kind):
    tensors = {"a": torch.randn(3, 5).mul(50).abs().to(kind), "b": torch.tensor(7).to(kind), "empty": torch.zeros(0, 4)}
    assert_same(save(tensors), tensors)


def test_views_keep_their_order_and_share_their_numbers(save):
    flat = torch.randn(2 * 3 * 4 * 5 + 7)
    tensors = {
        "offset": flat[7:].view(2, 3, 4, 5),
        "transposed": flat[7:19].view(3, 4).t(),
        "channels_last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "ones": flat[:4].view(1, 4, 1),
        "parameter": nn.Parameter(flat[:6].view(2, 3)),
    }
    assert_same(save(tensors), tensors)


@pytest.mark.parametrize("names", [("state_dict",), ("model",), ("model", "state_dict"), ("model_state_dict",)])
def test_the_state_dict_inside_of_a_checkpoint_is_found(save, names):
    network = small_network()
    optimizer = torch.optim.SGD(network.parameters(), 0.1, momentum=0.9)
    network(torch.randn(2, 3, 3, 3)).sum().backward()
    optimizer.step()
    content = network.state_dict()
    for name in reversed(names):
        content = {
            "epoch": 3,
            "best": torch.tensor(0.5),
            "arch": "small",
            name: content,
            "optimizer": optimizer.state_dict(),
        }
    assert_same(save(content), network.state_dict())


def test_what_is_not_a_state_dict_is_refused_in_one_line(save):
    for content, said in (
        (small_network(), "torch.nn.modules.container.Sequential"),
        ({"args": collections.Counter("aab"), "state_dict": {"a": torch.zeros(1)}}, "collections.Counter"),
        ({"epoch": 3, "losses": [0.1, 0.2]}, "it has: epoch, losses"),
        ([torch.zeros(1)], "does not hold a dictionary of tensors"),
        ({"a": torch.zeros(4, 4)[:, ::2]}, "has in a only a part of something larger"),
        ({"a": torch.zeros(1).expand(1000)}, "has in a only a part of something larger"),
        ({("a",): torch.zeros(1)}, "keys are not names"),
        ({"a": {1, 2}}, "refers to __builtin__.set"),
        ({"a": 2**4000}, "does more in its pickle than a dictionary of tensors needs (LONG4)"),
    ):
        path = save(content)
        with pytest.raises(SparclError) as refused:
            sparcl.load_weights(path)
        assert said in str(refused.value) and "\n" not in str(refused.value), refused.value
        assert str(refused.value).startswith(str(path))


class Evil:
    ran = False

    def __reduce__(self):
        return (setattr, (Evil, "ran", True))


def test_nothing_in_a_file_is_ever_called(save):
    for content in ({"a": Evil()}, {"state_dict": {"a": torch.zeros(1)}, "b": Evil()}):
        with pytest.raises(SparclError, match=r"refers to .*setattr, which is not part"):
            sparcl.load_weights(save(content))
    assert not Evil.ran


def archive(entries, **options):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", **options) as writer:
        for name, data in entries:
            writer.writestr(name, data)
    return content.getvalue()


def pickled(*parts):
    return b"\x80\x02" + b"".join(parts) + b"."


def test_the_entries_of_an_archive_are_those_that_python_finds(tmp_path):
    path = tmp_path / "any.zip"
    path.write_bytes(archive([("a/data.pkl", b"x" * 1000), ("ä/ö", b""), ("../../evil", b"y"), ("/etc/passwd", b"z")]))
    found = read_entries(WeightFile(path))
    with zipfile.ZipFile(path) as reference:
        assert {name: entry.size for name, entry in found.items()} == {
            info.filename: info.file_size for info in reference.infolist()
        }
        for name, entry in found.items():
            assert entry.read(WeightFile(path)) == reference.read(name)


def test_archives_that_are_not_what_they_seem_are_refused(tmp_path):
    path = tmp_path / "odd.pt"
    torch.save({"a": torch.arange(1000.0)}, path)
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as reader:
        entries = [(info.filename, reader.read(info)) for info in reader.infolist()]
    bomb = [("x/data.pkl", b"\0" * 10_000_000)]
    with pytest.warns(UserWarning, match="Duplicate"):
        twice = archive([*entries, entries[0]])
    for content, said in (
        (archive(entries, compression=zipfile.ZIP_DEFLATED), "compressed or encrypted"),
        (archive(bomb, compression=zipfile.ZIP_DEFLATED), "compressed or encrypted"),
        (archive([("x/data.pkl", b"." * (9 << 20))]), "larger than possible"),
        (twice, "two entries called"),
        (archive(entries[1:]), "not one that torch.save has written"),
        (archive([*entries, ("other/data.pkl", b".")]), "not one that torch.save has written"),
        (whole[:-1], "an archive without an end|something follows"),
        (whole + b"x", "something follows"),
        (archive([(n, d if "data/0" not in n else d[:-4]) for n, d in entries]), "missing, or of another size"),
        (archive([(n, d) for n, d in entries if "data/0" not in n]), "missing, or of another size"),
        (archive([(n, d if "byteorder" not in n else b"big") for n, d in entries]), "another order of bytes"),
        (whole.replace(struct.pack("<f", 500.0), struct.pack("<f", 501.0)), "a checksum in it is wrong"),
    ):
        path.write_bytes(content)
        with pytest.raises(SparclError, match=said) as refused:
            sparcl.load_weights(path)
        assert "\n" not in str(refused.value)


def test_pickles_that_are_made_to_hurt_are_refused(tmp_path):
    """Sizes without bytes behind them, operations without operands, and keys that take forever."""
    path = tmp_path / "odd.pt"
    name = b"X\x01\x00\x00\x00a"
    storage = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpu%stQ"
    tensor = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"%s%s%s\x89NtR"
    one = b"K\x01"
    numbers = np.zeros(4, np.float32).tobytes()

    def file(*parts):
        return archive([("x/data.pkl", pickled(*parts)), ("x/data/0", numbers)])

    def of(count=b"K\x04", offset=b"K\x00", shape=b"K\x04\x85", strides=one + b"\x85"):
        return file(b"}", name, tensor % (count, offset, shape, strides), b"s")

    path.write_bytes(of())
    assert np.array_equal(sparcl.load_weights(path)["a"], np.zeros(4, np.float32))
    huge = b"\x8a\x05\x00\x00\x00\x00\x01"  # 2^32
    endless = b"\x8a\x09" + b"\x00" * 8 + b"\x01"  # 2^64
    for content in (
        of(count=huge),
        of(offset=one),
        of(offset=b"J\xff\xff\xff\xff"),
        of(shape=huge + b"\x85"),
        of(shape=endless + b"\x85"),
        of(shape=b"J\xff\xff\xff\xff\x85"),
        of(shape=huge + b"\x85", strides=b"K\x00\x85"),
        of(shape=b"K\x02K\x02\x86"),
        of(shape=b"K\x02K\x02\x86", strides=b"K\x01K\x01\x86"),
        of(shape=b"G" + struct.pack(">d", 4.0) + b"\x85"),
        of(shape=b"(" + one * 9 + b"t", strides=b"(" + one * 9 + b"t"),
        file(b"s"),
        file(b"}s"),
        file(b"t"),
        file(b"}h\x07"),
        file(b"X\xff\xff\xff\x7fa"),
        file(b"cos\nsystem\n", name, b"\x85R"),
        file(b"ccollections\nOrderedDict\n", name, b"\x85R"),
        file(b"}ccollections\nOrderedDict\n", one, b"s"),
        file(b"}(" + b"(" * 1000 + b"t" * 1000, one, b"u"),
        archive([("x/data.pkl", b"")]),
        archive([("x/data.pkl", b"\x80\x02" + b"}" * 1_000_001 + b".")]),
        archive([("x/data.pkl", b"\x80\x7f}.")]),
    ):
        path.write_bytes(content)
        with pytest.raises(SparclError) as refused:
            sparcl.load_weights(path)
        assert "\n" not in str(refused.value) and len(str(refused.value)) < 400


def test_tensors_that_share_their_numbers_endlessly_are_refused(save):
    shared = torch.zeros(10_000)
    with pytest.raises(SparclError, match="larger than the file itself"):
        sparcl.load_weights(save({str(number): shared for number in range(50)}))


def test_what_is_not_a_file_of_weights_is_refused_in_one_line(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("hello")
    (tmp_path / "pickle").write_bytes(pickle.dumps({"a": 1}))
    for name, said in (
        ("pipe", "is not a file with weights"),
        ("empty", "neither a safetensors file nor a state dict"),
        ("text", "neither a safetensors file nor a state dict"),
        ("pickle", "neither a safetensors file nor a state dict"),
        ("absent", "No such file"),
        ("zero\0", "is not the name of a file"),
        (".", "a directory without a checkpoint"),
    ):
        with pytest.raises(SparclError, match=said):
            sparcl.load_weights(tmp_path / name)
