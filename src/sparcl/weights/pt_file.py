"""State dicts that `torch.save` wrote, read without unpickling: an archive with a pickle inside, since PyTorch 1.6.

    NAME/data.pkl        the dictionary; each tensor is a place in a storage   (pickled.py)
    NAME/data/0, 1, ...  the storages: numbers, nothing else

Before that, and still for files that many people use, one pickle after another and then the storages:

    magic number | protocol | about the machine | the dictionary | the keys of the storages | count, numbers | ...
"""

import io
from typing import Any

from sparcl.weights.file import TYPES, StoredTensor, UnusableError, WeightFile, check_together, shown
from sparcl.weights.pickled import PickledTensor, Storage, read_pickle, tensors_in
from sparcl.weights.zip_file import LOCAL, Entry, read_entries

MAX_PICKLE = 8 << 20
PICKLE = b"\x80"
OLD_MAGIC = 0x1950A86A20F9469CFC6C
OLD_PROTOCOL = 1001
OTHER_BYTE_ORDER = "was written by a machine with another order of bytes"


def looks_like_pt(file: WeightFile) -> bool:
    start = file.read(0, min(file.size, 32))
    return start.startswith(LOCAL) or (start.startswith(PICKLE) and OLD_MAGIC.to_bytes(10, "little") in start)


def read_pt(file: WeightFile) -> dict[str, StoredTensor]:
    """The tensors by name, in the order of the state dict."""
    tensors, storages = _read_archive(file) if file.read(0, 4) == LOCAL else _read_old(file)
    found = {name: _placed(name, tensor, storages[tensor.storage.key]) for name, tensor in tensors.items()}
    check_together(found, file)
    return found


def _read_archive(file: WeightFile) -> tuple[dict[str, PickledTensor], dict[str, int]]:
    """The tensors, and where each storage begins in the file."""
    entries = read_entries(file)
    roots = [name.removesuffix("data.pkl") for name in entries if name.endswith("/data.pkl")]
    if len(roots) != 1:
        raise UnusableError("is an archive, but not one that torch.save has written")
    (root,) = roots
    order = entries.get(f"{root}byteorder")
    if order is not None and (order.size > 16 or order.read(file) != b"little"):
        raise UnusableError(OTHER_BYTE_ORDER)
    if entries[f"{root}data.pkl"].size > MAX_PICKLE:
        raise UnusableError("has a pickle that is larger than possible")
    content, _ = read_pickle(io.BytesIO(entries[f"{root}data.pkl"].read(file)))
    tensors = tensors_in(content)
    places: dict[str, Entry] = {}
    for name, tensor in tensors.items():
        entry = entries.get(f"{root}data/{tensor.storage.key}")
        if entry is None or entry.size != _bytes(tensor.storage):
            raise UnusableError(f"is damaged: the numbers of {shown(name)} are missing, or of another size")
        places[tensor.storage.key] = entry
    for entry in places.values():
        entry.check(file)
    return tensors, {key: entry.start for key, entry in places.items()}


def _read_old(file: WeightFile) -> tuple[dict[str, PickledTensor], dict[str, int]]:
    stream = io.BytesIO(file.read(0, min(file.size, MAX_PICKLE)))
    magic, protocol, machine = (read_pickle(stream)[0] for _ in range(3))
    if magic != OLD_MAGIC or protocol != OLD_PROTOCOL:
        raise UnusableError("was written by a version of torch.save that is not known")
    if not isinstance(machine, dict) or machine.get("little_endian") is not True:
        raise UnusableError(OTHER_BYTE_ORDER)
    content, storages = read_pickle(stream)
    keys, _ = read_pickle(stream)
    return tensors_in(content), _old_places(file, stream.tell(), keys, storages)


def _old_places(file: WeightFile, start: int, keys: Any, storages: dict[str, Storage]) -> dict[str, int]:
    """Where the storages begin: behind each other in the order of their keys, each after the count of its numbers."""
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys) or set(keys) != set(storages):
        raise UnusableError("is damaged: the list of its storages is wrong")
    places: dict[str, int] = {}
    for key in keys:
        if int.from_bytes(file.read(start, 8), "little") != storages[key].count or key in places:
            raise UnusableError("is damaged: a storage is of another size than the pickle says")
        places[key] = start + 8
        start += 8 + _bytes(storages[key])
    if start != file.size:
        raise UnusableError("is damaged: it is not as long as it says")
    return places


def _bytes(storage: Storage) -> int:
    return storage.count * TYPES[storage.kind].itemsize


def _placed(name: str, tensor: PickledTensor, start: int) -> StoredTensor:
    """Where it is in the file; its numbers must lie there without gaps, each once, in whatever order of the axes."""
    axes = sorted(range(len(tensor.shape)), key=lambda axis: -tensor.strides[axis])
    step = 1
    for axis in reversed(axes):
        if tensor.shape[axis] != 1 and tensor.strides[axis] != step and 0 not in tensor.shape:
            raise UnusableError(f"has in {shown(name)} only a part of something larger: save a copy (tensor.clone())")
        step *= tensor.shape[axis]
    if tensor.offset < 0 or tensor.offset + step > tensor.storage.count:
        raise UnusableError(f"is damaged: {shown(name)} reaches beyond its numbers")
    kind = tensor.storage.kind
    return StoredTensor(kind, tensor.shape, start + tensor.offset * TYPES[kind].itemsize, tuple(axes))
