"""Damages files of weights thousands of times, by accident and with intent, and reads what comes out.

    python -m benchmarks.weights_fuzz                # 20,000 files: some minutes
    python -m benchmarks.weights_fuzz --count 500

State dicts of PyTorch in both of its formats, safetensors, a checkpoint of ours and a backbone are damaged: flipped
bits, parts that are cut off, repeated or exchanged, operations of the pickle put in the place of others, numbers that
are endless, entries of archives that are doubled, overlap, are compressed or lead out of them, headers that lie; in a
backbone, with every checksum made right again, layers that do not fit, exist or end, and tensors of other kinds. Each
file must be refused in one line, or give tensors of its own names; a backbone that is not refused must also run. Bits
that flip in numbers with a checksum must be noticed. No file may take more memory than a small multiple of its size,
nor more than ten seconds.
"""

import argparse
import collections
import io
import itertools
import json
import math
import os
import random
import resource
import signal
import struct
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load, save

import sparcl
from sparcl import tensor_files
from sparcl.backbone import backbone_directory, find_backbone
from sparcl.backbone.file import backbone_bytes
from sparcl.errors import SparclError
from sparcl.graph import GraphBuilder, build_model
from sparcl.network import Parameters
from sparcl.network.native import NativeNetwork
from sparcl.network.restoring import network_tensors
from sparcl.operations import (
    Add,
    AveragePool,
    BatchNorm,
    Concat,
    Conv,
    Dropout,
    Flatten,
    GlobalAveragePool,
    HardSwish,
    Linear,
    MaxPool,
    Operation,
    Relu,
    Relu6,
)

SECONDS = 10
MEGABYTES = 300  # that a file may take: the limits of pickles and headers, as Python objects
BACKBONE = "fuzzed"
LARGEST_RUN = 1 << 20  # numbers in all maps of a backbone that is tried on pictures
ENDLESS = (-1, 0, 1, 2**31 - 1, 2**31, 2**32, 2**53, 2**62, 2**63, 2**64 - 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000, help="how many damaged files")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=sorted(DAMAGES), help="only files of this kind")
    options = parser.parse_args()
    outcomes = fuzz(options.count, options.seed, options.kind)
    for how, times in sorted(outcomes.items()):
        print(f"{how:30} {times:6,}")
    print(f"{options.count:,} damaged files: each was refused in one line, or read")


def fuzz(count: int, seed: int, only: str | None = None) -> "collections.Counter[str]":
    chance = random.Random(seed)
    outcomes: collections.Counter[str] = collections.Counter()
    graph = build_model("convnet", (3, 8, 8), 4, 2)
    whole = {kind: content for kind, content in originals(graph).items() if only in (None, kind)}
    limit_memory()
    with tempfile.TemporaryDirectory() as temporary:
        os.environ["SPARCL_HOME"] = temporary
        path = backbone_directory() / f"{BACKBONE}.safetensors"  # any other kind of file may lie there too
        path.parent.mkdir()
        said = {}
        for kind, content in whole.items():
            path.write_bytes(content)
            said[kind] = USES.get(kind, use)(path, graph)
            assert said[kind] is not None
        for _ in range(count):
            kind = chance.choice(list(whole))
            damage = chance.choice(DAMAGES[kind])
            path.write_bytes(damage(whole[kind], chance))
            signal.alarm(SECONDS)  # whoever takes longer hangs
            found = USES.get(kind, use)(path, graph)
            signal.alarm(0)
            if kind in CHECKED and damage in BYTES and found not in (None, said[kind]):
                raise AssertionError(f"{damage.__name__} of {kind} gives other numbers, which nobody has noticed")
            outcomes[f"{kind}, {damage.__name__}: {'read' if found else 'refused'}"] += 1
    return outcomes


def use(path: Path, graph: object) -> dict[str, bytes] | None:
    """As a program would: look at everything, and fill a network. None: it was refused."""
    try:
        weights = sparcl.load_weights(path)
        found = {name: array.tobytes() for name, array in weights.items()}
        weights.copy_to(graph, Parameters(graph))  # type: ignore[arg-type]
    except SparclError as error:
        return refused(error)
    return found


def use_backbone(path: Path, graph: object) -> dict[str, bytes] | None:
    """As a learner would: find it, fill a network, and let it see."""
    try:
        backbone = find_backbone(BACKBONE)
        network, parameters = backbone.graph(), backbone.parameters()
    except SparclError as error:
        return refused(error)
    stores = (parameters.values, parameters.statistics)
    found = {name: np.ascontiguousarray(store[name]).tobytes() for store in stores for name in store}
    if sum(math.prod(node.shape) for node in network) < LARGEST_RUN:
        NativeNetwork(network, parameters).predict(np.zeros((2, *network.input_shape), np.float32))
    return {**found, "size": str(backbone.size).encode(), "mean": str(backbone.mean).encode()}


def refused(error: SparclError) -> None:
    if "\n" in str(error) or len(str(error)) > 600:
        raise AssertionError(f"more than one line: {error}") from error


def originals(graph: object) -> dict[str, bytes]:
    generator = np.random.default_rng(0)
    parameters = Parameters(graph)  # type: ignore[arg-type]
    parameters.initialise(graph, generator)  # type: ignore[arg-type]
    arrays = {
        name: np.ascontiguousarray(store[name])
        for store in (parameters.values, parameters.statistics)
        for name in store
    }
    files: dict[str, bytes] = {"safetensors": save(arrays)}
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    checkpoint = {"epoch": 3, "state_dict": tensors, "optimizer": {"state": {0: {"step": 1.0}}, "rates": [0.1, None]}}
    for kind, is_archive in (("archive", True), ("old", False)):
        content = io.BytesIO()
        torch.save(checkpoint, content, _use_new_zipfile_serialization=is_archive)
        files[kind] = content.getvalue()
    content = io.BytesIO()
    parameters.set_index({"conv2.weight": np.arange(0, 36, 3, dtype=np.int32)})
    tensor_files.write(content, network_tensors(parameters), {"position": {"task": 1}})
    files["checkpoint"] = content.getvalue()
    files["backbone"] = backbone_file(Flatten())
    files["pooled backbone"] = backbone_file(GlobalAveragePool())
    return files


def backbone_file(last: Operation) -> bytes:
    """Small, with every operation. Averaged at the end, it takes pictures and windows of many sizes."""
    build = GraphBuilder((3, 16, 16))
    x = build("stem.relu", Relu6(), build("stem.bn", BatchNorm(), build("stem", Conv(6, stride=2), build.input)))
    y = build("wide", Conv(6, kernel=5, groups=6, bias=True), x)
    x = build("pooled", MaxPool(3, 2, 1), build("swish", HardSwish(), build("sum", Add(), x, y)))
    x = build("both", Concat(), x, build("relu", Relu(), x))
    x = build("flat", last, build("mean", AveragePool(2), x))
    x = build("hidden", Linear(8), build("drop", Dropout(1000), x))
    graph = build.finish(build("end", Linear(2), x))
    parameters = Parameters(graph)
    parameters.initialise(graph, np.random.default_rng(0))
    return backbone_bytes(graph, parameters, 16, (0.5, 0.5, 0.5), (0.2, 0.2, 0.2))


# Damage to bytes


def flipped(whole: bytes, chance: random.Random) -> bytes:
    content = bytearray(whole)
    for _ in range(chance.choice((1, 1, 1, 8))):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    return bytes(content)


def cut(whole: bytes, chance: random.Random) -> bytes:
    return whole[: chance.randrange(len(whole))]


def moved(whole: bytes, chance: random.Random) -> bytes:
    """A part is repeated, missing, or somewhere else."""
    start, length, to = chance.randrange(len(whole)), chance.randrange(1, 200), chance.randrange(len(whole))
    part = whole[start : start + length]
    rest = whole if chance.random() < 0.5 else whole[:start] + whole[start + length :]
    return rest[:to] + part + rest[to:]


def endless(whole: bytes, chance: random.Random) -> bytes:
    """A number of 2, 4 or 8 bytes becomes one that is far too large, anywhere."""
    size, number = chance.choice((2, 4, 8)), chance.choice(ENDLESS)
    place = chance.randrange(max(1, len(whole) - size))
    return whole[:place] + (number % 2 ** (8 * size)).to_bytes(size, "little") + whole[place + size :]


# Damage to what the bytes mean, with everything around it made right again


def with_pickle(change: Callable[[bytes, random.Random], bytes]) -> Callable[[bytes, random.Random], bytes]:
    """Damage to the pickle alone; the checksum of the archive is right again."""

    def damage(whole: bytes, chance: random.Random) -> bytes:
        entries = entries_of(whole)
        name = next(name for name in entries if name.endswith("data.pkl"))
        return archive({**entries, name: change(entries[name], chance)})

    damage.__name__ = f"{change.__name__} (pickle)"
    return damage


def other_operations(pickled: bytes, chance: random.Random) -> bytes:
    """Some operations in the place of others."""
    import pickletools

    places = [place for _, _, place in pickletools.genops(pickled) if place is not None]
    codes = [operation.code.encode("latin-1") for operation in pickletools.opcodes]
    content = bytearray(pickled)
    for _ in range(chance.randint(1, 3)):
        content[chance.choice(places)] = chance.choice(codes)[0]
    return bytes(content)


def other_arguments(pickled: bytes, chance: random.Random) -> bytes:
    """A whole number of the pickle becomes another one."""
    import pickletools

    found = [
        (place, operation.name)
        for operation, _, place in pickletools.genops(pickled)
        if operation.name in ("BININT1", "BININT2", "BININT") and place is not None
    ]
    place, name = chance.choice(found)
    size = {"BININT1": 1, "BININT2": 2, "BININT": 4}[name]
    number = chance.choice(ENDLESS)
    long = b"\x8a\x0a" + number.to_bytes(10, "little", signed=True)
    return pickled[:place] + long + pickled[place + 1 + size :]


def other_names(pickled: bytes, chance: random.Random) -> bytes:
    """Something else is to be called."""
    old = chance.choice(
        (b"ctorch._utils\n_rebuild_tensor_v2\n", b"ccollections\nOrderedDict\n", b"ctorch\nFloatStorage\n")
    )
    names = (b"os\nsystem", b"builtins\neval", b"torch\nload", b"torch\nDoubleStorage", b"collections\nOrderedDict")
    return pickled.replace(old, b"c" + chance.choice(names) + b"\n", chance.choice((1, -1)))


def nested(pickled: bytes, chance: random.Random) -> bytes:
    """Deep, or wide by referring to itself."""
    if chance.random() < 0.5:
        return b"\x80\x02" + chance.choice((b"]", b"}", b"(")) * chance.randrange(100_000) + b"."
    doubled = b"".join(b"h%ch%c\x86q%c" % (n, n, n + 1) for n in range(200))
    return b"\x80\x02}q\x00" + doubled + chance.choice((b"h\xc8K\x01s.", b"K\x01h\xc8s.", b"."))


def odd_archive(whole: bytes, chance: random.Random) -> bytes:
    entries = entries_of(whole)
    names = list(entries)
    match chance.choice(("compressed", "missing", "longer", "renamed", "more", "pickles")):
        case "compressed":
            return archive(entries, zipfile.ZIP_DEFLATED)
        case "missing":
            del entries[chance.choice(names)]
        case "longer":
            entries[chance.choice(names)] += bytes(chance.choice((1, 4, 1000)))
        case "renamed":
            name = chance.choice(names)
            other = chance.choice(("../../etc/passwd", "/dev/zero", "a/data.pkl", "ö", "data/0", "archive/data/../0"))
            entries = {other if one == name else one: content for one, content in entries.items()}
        case "more":
            entries[chance.choice(("a/data.pkl", "archive/data/00", "x" * 60_000))] = b"."
        case _:
            entries = dict.fromkeys(names, entries[names[0]])
    return archive(entries)


def odd_directory(whole: bytes, chance: random.Random) -> bytes:
    """A field of the directory of the archive is another one: endless, or the place of another entry."""
    entries = [place for place in range(len(whole)) if whole[place : place + 4] == b"PK\x01\x02"]
    ends = [whole.rindex(signature) for signature in (b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07")]
    (other,) = struct.unpack_from("<I", whole, chance.choice(entries) + 42)
    size, number = chance.choice((2, 4, 8)), chance.choice((*ENDLESS, other))
    field = chance.choice(ends if chance.random() < 0.3 else entries) + chance.randrange(4, 46, 2)
    content = whole[:field] + (number % 2 ** (8 * size)).to_bytes(size, "little") + whole[field + size :]
    return content[: len(whole)]


def odd_header(whole: bytes, chance: random.Random) -> bytes:
    """One value of the JSON of a safetensors file is another one."""
    length = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + length])
    odd = (None, True, -1, 0, 2**40, 2**63, 1e300, "", "x", [], [0] * 20, {}, {"a": 1}, [2**39, 2**39])
    name = chance.choice(sorted(header))
    entry = header[name]
    match chance.choice(("value", "entry", "gone", "copied")):
        case "value" if isinstance(entry, dict) and entry:
            entry[chance.choice(sorted(entry))] = chance.choice(odd)
        case "gone":
            del header[name]
        case "copied":
            header[name + "x"] = entry
        case _:
            header[name] = chance.choice(odd)
    text = json.dumps(header).encode()
    if chance.random() < 0.1:
        text = text.replace(b"}", b'}, "conv1.weight": {}', 1)
    return len(text).to_bytes(8, "little") + text + whole[8 + length :]


def odd_layers(whole: bytes, chance: random.Random) -> bytes:
    """Of a backbone: values of its description, or tensors, are others, and every checksum is right again."""
    length = int.from_bytes(whole[:8], "little")
    state = json.loads(json.loads(whole[8 : 8 + length])["__metadata__"]["state"])
    about, tensors = state["backbone"], load(whole)
    for _ in range(chance.choice((1, 1, 2, 4))):
        match chance.choice(("attribute", "attribute", "layer", "section", "tensor")):
            case "attribute":
                layer = chance.choice(about["layers"])
                if isinstance(layer, dict) and layer:
                    key = chance.choice(sorted(layer))
                    layer[key] = chance.choice((*ODD, *NEAR) if chance.random() < 0.5 else (1, 2, 3, True, False, 0.1))
            case "layer":
                about["layers"] = other_layers(about["layers"], chance)
            case "section":
                about[chance.choice(sorted(about))] = chance.choice((*ODD, 8, 17, 1024, [0.5, 0.5, 0.5]))
            case _:
                other_tensor(tensors, chance)
        if not isinstance(about.get("layers"), list) or not about["layers"]:
            break
    content = io.BytesIO()
    tensor_files.write(content, tensors, {"backbone": about})
    return content.getvalue()


ODD = (None, True, -1, 0, 2**40, 2**63, 1e300, -1e-9, "", "x", "\n", [], ["input"], ["input"] * 99, {}, {"a": [1]})
NEAR = (
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    12,
    64,
    1000,
    0.5,
    "conv",
    "add",
    "concat",
    "affine",
    "input",
    "batch_norm",
    ["stem"],
    ["sum"],
)


def other_layers(layers: list[Any], chance: random.Random) -> list[Any]:
    """Some are missing, twice, exchanged, or far too many."""
    place = chance.randrange(len(layers))
    match chance.choice(("gone", "twice", "moved", "many", "doubling", "odd")):
        case "gone":
            return layers[:place] + layers[place + 1 :]
        case "twice":
            return layers[: place + 1] + layers[place:]
        case "moved":
            return layers[place:] + layers[:place]
        case "many":
            step = {"op": "relu", "inputs": ["input"]}
            return [*({**step, "name": f"r{n}"} for n in range(chance.choice((300, 4000, 5000)))), *layers]
        case "doubling":
            names = ["input", *(f"c{n}" for n in range(40))]
            double = [{"name": b, "op": "concat", "inputs": [a, a]} for a, b in itertools.pairwise(names)]
            return double[: chance.choice((2, 40))] + layers
        case _:
            return [*layers[:place], chance.choice(ODD), *layers[place + 1 :]]


def other_tensor(tensors: dict[str, Any], chance: random.Random) -> None:
    name = chance.choice(sorted(tensors))
    array = tensors[name]
    match chance.choice(("kind", "shape", "gone", "renamed", "number")):
        case "kind":
            tensors[name] = array.astype(chance.choice((np.int8, np.float16, np.float64, bool, np.uint64)))
        case "shape":
            tensors[name] = chance.choice((array.ravel(), array[:1], array[:0], np.float32(1).reshape(())))
        case "gone":
            del tensors[name]
        case "renamed":
            tensors[name + "x"] = tensors.pop(name)
        case _:
            tensors[name] = array.copy()
            number = chance.choice((np.nan, np.inf, -np.inf, -1, 1e-45, 3e38))
            if array.size and array.dtype.kind == "f":
                with np.errstate(over="ignore"):
                    tensors[name].flat[chance.randrange(array.size)] = number


def entries_of(whole: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(whole)) as reader:
        return {info.filename: reader.read(info) for info in reader.infolist()}


def archive(entries: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compression) as writer:
        for name, data in entries.items():
            writer.writestr(name, data)
    return content.getvalue()


BYTES = (flipped, cut, moved, endless)
BACKBONES = ("backbone", "pooled backbone")
USES = dict.fromkeys(BACKBONES, use_backbone)
CHECKED = ("archive", "checkpoint", *BACKBONES)  # every number in them has a checksum
DAMAGES: dict[str, tuple[Callable[[bytes, random.Random], bytes], ...]] = {
    "archive": (
        *BYTES,
        *map(with_pickle, (*BYTES, other_operations, other_arguments, other_names, nested)),
        odd_archive,
        odd_directory,
    ),
    "old": BYTES,
    "safetensors": (*BYTES, odd_header),
    "checkpoint": (*BYTES, odd_header),
    **dict.fromkeys(BACKBONES, (*BYTES, odd_header, odd_layers, odd_layers, odd_layers)),
}


def limit_memory() -> None:
    """What is mapped now, and a little more: whoever wants the rest gets a MemoryError, which ends the program."""
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (mapped + (MEGABYTES << 20), hard))


if __name__ == "__main__":
    main()
