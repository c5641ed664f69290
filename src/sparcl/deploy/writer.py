"""Writing model files. docs/model-file.md specifies them; native/inference reads them.

A file is safetensors: the numbers as tensors, everything else as JSON in its header. Of a sparse weight only the active
values are stored, and the gaps between their positions, a byte each. The last four bytes are a checksum of the others.
"""

import io
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sparcl.compiler import unsupported
from sparcl.errors import SparclError
from sparcl.files import write_bytes
from sparcl.graph import Graph
from sparcl.network.folding import FoldedNode, cut_classifier, fold, stored_weight
from sparcl.network.parameters import Parameters
from sparcl.operations import Affine, Conv, Shape
from sparcl.tensor_files import Tensors, write_unsealed

VERSION = 3
CHECKSUM = "checksum"
SUFFIX = ".sparcl"
NO_WEIGHT = 255  # a gap of so many positions without a weight at its end

Precision = Literal["float32", "float16", "int8"]


@dataclass(frozen=True)
class Preprocessing:
    """How a picture becomes an input: the largest centred part of the right proportions, resized to the image size with
    a smoothing bilinear filter, minus the mean, divided by the standard deviation (of each channel, from 0 to 1)."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


def write_model(
    path: Path,
    graph: Graph,
    parameters: Parameters,
    class_names: Sequence[str],
    preprocessing: Preprocessing,
    precision: Precision = "float32",
) -> int:
    """Write what `sparcl.load` reads; returns the size in bytes. A reader never sees half a file.

    A network that has room for more classes than have names loses the outputs that are left over.
    """
    content = model_bytes(graph, parameters, class_names, preprocessing, precision)
    write_bytes(path, content)
    return len(content)


def model_bytes(
    graph: Graph,
    parameters: Parameters,
    class_names: Sequence[str],
    preprocessing: Preprocessing,
    precision: Precision = "float32",
) -> bytes:
    if precision not in get_args(Precision):
        raise SparclError(f"There is no precision {precision!r}. Choose one of: {', '.join(get_args(Precision))}.")
    reason = unsupported(graph)
    if reason is not None:
        raise SparclError(f"This network cannot be exported: {reason}.")
    _check_names(class_names, graph.classes)
    channels = graph.input_shape[0]
    if len(preprocessing.mean) != channels or len(preprocessing.std) != channels:
        raise SparclError(f"The images have {channels} channels; mean and std must have as many numbers.")
    folded = cut_classifier(fold(graph, parameters), len(class_names))
    tensors: Tensors = {}
    shapes = {node.name: node.shape for node in folded}
    for node in folded:
        tensors |= _tensors(node, shapes, precision)
    description = {
        "format": "sparcl-model",
        "version": VERSION,
        "precision": precision,
        "graph": [_node(node) for node in folded],
        "classes": list(class_names),
        "preprocessing": {
            "resize": "centre-fit",
            "mean": [float(value) for value in preprocessing.mean],
            "std": [float(value) for value in preprocessing.std],
        },
    }
    tensors[CHECKSUM] = np.zeros(4, np.uint8)  # the last of the tensors with the narrowest numbers: it ends the file
    content = io.BytesIO()
    write_unsealed(content, tensors, {"sparcl": json.dumps(description, separators=(",", ":"))})
    sealed = content.getbuffer()
    sealed[-4:] = zlib.crc32(sealed[:-4]).to_bytes(4, "little")
    return bytes(sealed)


def _check_names(class_names: Sequence[str], classes: int) -> None:
    if not 1 <= len(class_names) <= classes:
        raise SparclError(f"The network has {classes} outputs, but there are {len(class_names)} class names.")
    for name in class_names:
        if not name or not name.isprintable() or len(name.encode()) > 1000:
            raise SparclError(f"The class name {name!r} is empty, too long, or has unprintable characters. Rename it.")


def _node(node: FoldedNode) -> dict[str, Any]:
    name = {"name": node.name, "op": node.op.engine_name(), "inputs": list(node.inputs), "shape": list(node.shape)}
    return {**name, **node.op.attributes()}


def _tensors(node: FoldedNode, shapes: Mapping[str, Shape], precision: Precision) -> Tensors:
    name = node.name
    if node.values is None or node.shift is None:
        return {}
    weight, bias = stored_weight(node, shapes), node.shift
    for numbers in (weight, bias):
        if not np.isfinite(numbers.astype(np.float32)).all():
            raise SparclError(f"{name} has numbers that are not finite: the network cannot be exported.")
    tensors: Tensors = {f"{name}.bias": bias.astype(np.float32)}
    if isinstance(node.op, Affine):
        return tensors | {f"{name}.weight": weight.astype(np.float32)}
    outputs = node.shape[0]
    size = node.row * outputs
    index = np.arange(size) if node.index is None else node.index
    values, scale = _stored(name, weight, index // node.row, outputs, precision)
    if scale is not None:
        tensors[f"{name}.scale"] = scale
    kept = np.flatnonzero(values)  # a weight of zero does nothing
    gaps = gaps_of(index[kept])
    whole = not (isinstance(node.op, Conv) and node.op.may_be_sparse)
    if whole or gaps.nbytes + values[kept].nbytes >= size * values.itemsize:
        full = np.zeros(size, values.dtype)
        full[index] = values
        return tensors | {f"{name}.weight": full.reshape(outputs, -1)}
    return tensors | {f"{name}.values": values[kept], f"{name}.gaps": gaps}


def _stored(
    name: str, values: NDArray[np.float64], output: NDArray[np.integer], outputs: int, precision: Precision
) -> tuple[NDArray[Any], NDArray[np.float32] | None]:
    """The values as they are stored; of int8, with the scale of each output."""
    if precision == "float32":
        return values.astype(np.float32), None
    if precision == "float16":
        if len(values) and np.abs(values).max() > np.finfo(np.float16).max:
            raise SparclError(f"{name} has weights too large for float16. Choose precision float32.")
        return values.astype(np.float16), None
    largest = np.zeros(outputs)
    np.maximum.at(largest, output, np.abs(values))
    scale = (largest / 127).astype(np.float32)
    # Where the scale is so small that it became zero, so are the weights.
    steps = np.divide(values, scale[output], out=np.zeros_like(values), where=scale[output] > 0)
    return np.clip(np.rint(steps), -127, 127).astype(np.int8), scale


def gaps_of(positions: NDArray[np.integer]) -> NDArray[np.uint8]:
    """Sorted positions as bytes: each moves on by itself plus one to the next weight; 255 only moves on by 255."""
    steps = np.diff(positions.astype(np.int64), prepend=-1) - 1
    empty, rest = np.divmod(steps, NO_WEIGHT)
    gaps = np.full(len(steps) + int(empty.sum()), NO_WEIGHT, np.uint8)
    gaps[np.cumsum(empty + 1) - 1] = rest
    return gaps
