"""Files of backbones: sealed safetensors. The tensors are named after the layers; beside them, as JSON, are the layers
themselves and how pictures are prepared.

Large weights are stored in half precision, everything else in single precision: it is little, the first layers amplify
what is rounded in them, and the variances of batch normalisations can be smaller than any half-precision number.
"""

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparcl import tensor_files
from sparcl.backbone.backbone import Backbone, checked_numbers, stored_specs
from sparcl.backbone.description import (
    MAX_LEVEL,
    build,
    check_channels,
    check_size,
    feature_layers,
    layers_from_json,
    layers_to_json,
)
from sparcl.errors import SparclError
from sparcl.files import write_bytes
from sparcl.graph import Graph
from sparcl.network.parameters import Parameters
from sparcl.tensor_files import UNREADABLE, SealedTensors
from sparcl.weights.file import UnusableError, WeightFile, shown
from sparcl.weights.own_file import OpenedTensors
from sparcl.weights.safetensors_file import looks_like_safetensors, read_safetensors

VERSION = 1
SECTION = "backbone"
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
MIN_STD = 1e-3
LARGE = 4096  # numbers: larger weights may be stored in half precision
HALF_ERROR = 2.0**-10  # of the largest weight of a tensor


def read_backbone(path: Path, name: str) -> Backbone:
    """Everything but the numbers is checked; those are when they are asked for. Raises UnusableError, and SparclError
    if the file cannot be read."""
    file = WeightFile(path)
    if not looks_like_safetensors(file):
        raise UnusableError("is not a file of a backbone")
    stored, texts = read_safetensors(file)
    if not is_backbone(texts):
        raise UnusableError("is not a file of a backbone")
    try:
        tensors = SealedTensors(OpenedTensors(file, stored, texts))
    except UNREADABLE as error:
        raise UnusableError("is damaged: what is beside its tensors has changed") from error
    about = tensors.state.get(SECTION)
    if not isinstance(about, dict):
        raise UnusableError("is not a file of a backbone")
    if about.get("version") != VERSION:
        raise UnusableError(f"is a backbone of version {shown(str(about.get('version')))}; this is {VERSION}")
    size = check_size(about.get("size"))
    mean, std = _levels(about.get("mean"), about.get("std"))
    layers = layers_from_json(about.get("layers"))
    graph = build(layers, size, 1)
    wanted = {spec.name: spec.shape for spec in stored_specs(graph)}
    if wanted.keys() != stored.keys():
        other = sorted(wanted.keys() ^ stored.keys())[0]
        raise UnusableError(f"does not have the tensors of its layers: {shown(other)} is missing, or too many")
    for tensor, shape in wanted.items():
        if stored[tensor].shape != shape:
            raise UnusableError(f"has in {shown(tensor)} the shape {stored[tensor].shape}, not {shape}")
    features = graph.shapes_into(graph.classifier)[0][0]
    return Backbone(name, file.digest, size, mean, std, features, path, layers, tensors)


def _levels(mean: Any, std: Any) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return check_channels(mean, "mean", -MAX_LEVEL), check_channels(std, "std", MIN_STD)


def is_backbone(texts: dict[str, str]) -> bool:
    return f'"{SECTION}"' in texts.get("state", "")[:20]


def save_backbone(
    graph: Graph,
    parameters: Parameters,
    path: str | Path,
    *,
    size: int | None = None,
    mean: tuple[float, ...] = IMAGENET_MEAN,
    std: tuple[float, ...] = IMAGENET_STD,
    features: str | None = None,
) -> str:
    """Write a network as a file that `sparcl backbone import` takes; returns its digest.

    The features are what the classifier reads, or the output of the node that `features` names. `size`: the side of
    pictures, if not the graph's. `mean` and `std`: of pixels from 0 to 1, for each colour.
    """
    try:
        content = backbone_bytes(
            graph, parameters, graph.input_shape[-1] if size is None else size, mean, std, features
        )
    except UnusableError as error:
        raise SparclError(f"The network {error}.") from error
    path = Path(path)
    write_bytes(path, content)
    return WeightFile(path).digest


def backbone_bytes(
    graph: Graph, parameters: Parameters, size: int, mean: Any, std: Any, features: str | None = None
) -> bytes:
    """Raises UnusableError."""
    layers = layers_from_json(layers_to_json(feature_layers(graph, features)))
    means, deviations = _levels(mean, std)
    about = {
        "version": VERSION,
        "size": check_size(size),
        "mean": means,
        "std": deviations,
        "layers": layers_to_json(layers),
    }
    own = {
        name: np.ascontiguousarray(store.dense(name))
        for store in (parameters.values, parameters.statistics)
        for name in store
    }
    tensors = {spec.name: _stored(checked_numbers(spec, own)) for spec in stored_specs(build(layers, size, 1))}
    content = io.BytesIO()
    tensor_files.write(content, tensors, {SECTION: about})
    return content.getvalue()


def _stored(numbers: NDArray[np.float32]) -> NDArray[Any]:
    if numbers.ndim < 2 or numbers.size <= LARGE:
        return numbers
    with np.errstate(over="ignore"):
        half = numbers.astype(np.float16)
        close = np.abs(half.astype(np.float32) - numbers) <= HALF_ERROR * np.abs(numbers).max()
    return half if close.all() else numbers
