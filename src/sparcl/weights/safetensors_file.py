"""Safetensors files, as anybody writes them: a header in JSON that says where each tensor lies, then the numbers.

https://huggingface.co/docs/safetensors. The package of that name reads no bfloat16 without PyTorch, and maps the file
into memory, where a file that is cut off meanwhile ends the process.
"""

import json
from typing import Any

from sparcl.weights.file import (
    MAX_TENSORS,
    StoredTensor,
    UnusableError,
    WeightFile,
    check_together,
    checked_shape,
    shown,
)

MAX_HEADER = 8 << 20
TYPES = {
    **{f"F{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"I{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"U{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    "BF16": "bfloat16",
    "BOOL": "bool",
}


def looks_like_safetensors(file: WeightFile) -> bool:
    return file.size >= 10 and file.read(8, 1) == b"{"


def read_safetensors(file: WeightFile) -> tuple[dict[str, StoredTensor], dict[str, str]]:
    """The tensors by name, and the texts beside them."""
    length = int.from_bytes(file.read(0, 8), "little")
    if length > min(MAX_HEADER, file.size - 8):
        raise UnusableError("is damaged: its header is longer than possible")
    text = file.read(8, length)
    if text.count(b"[") + text.count(b"{") > 4 * MAX_TENSORS:  # they take far more memory than letters
        raise UnusableError(f"has a header for more than {MAX_TENSORS:,} tensors")
    try:
        header = json.loads(text.decode(), object_pairs_hook=_distinct)
    except (ValueError, RecursionError) as error:
        if isinstance(error, UnusableError):
            raise
        raise UnusableError("is damaged: its header is not JSON") from error
    if not isinstance(header, dict):
        raise UnusableError("is damaged: its header is not a JSON object")
    texts = header.pop("__metadata__", {})
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise UnusableError("is damaged: the texts in its header are not texts")
    tensors = {name: _tensor(name, entry, 8 + length) for name, entry in header.items()}
    end = 8 + length
    for tensor in sorted(tensors.values(), key=lambda tensor: (tensor.start, tensor.bytes)):
        if tensor.start != end:
            raise UnusableError("is damaged: its tensors overlap, or have gaps between them")
        end += tensor.bytes
    if end != file.size:
        raise UnusableError("is damaged: it is not as long as its header says")
    check_together(tensors, file)
    return tensors, texts


def _tensor(name: str, entry: Any, origin: int) -> StoredTensor:
    if not isinstance(entry, dict):
        raise UnusableError(f"is damaged: it does not say what {shown(name)} is")
    kind = TYPES.get(entry["dtype"]) if isinstance(entry.get("dtype"), str) else None
    if kind is None:
        raise UnusableError(f"has numbers of type {shown(str(entry.get('dtype')))}, which cannot be read")
    offsets = entry.get("data_offsets")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(type(one) is int and one >= 0 for one in offsets):
        raise UnusableError(f"is damaged: it does not say where {shown(name)} lies")
    tensor = StoredTensor.contiguous(kind, checked_shape(entry.get("shape")), origin + offsets[0])
    if tensor.bytes != offsets[1] - offsets[0]:
        raise UnusableError(f"is damaged: {shown(name)} is not as large as its shape says")
    return tensor


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise UnusableError("is damaged: two entries of its header have the same name")
    return found
