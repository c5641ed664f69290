"""Making a backbone of a file that somebody has: of weights with known names, or of a backbone file."""

import os
from pathlib import Path
from typing import Any

from sparcl.backbone.backbone import Backbone
from sparcl.backbone.description import CHANNELS, check_size
from sparcl.backbone.file import IMAGENET_MEAN, IMAGENET_STD, backbone_bytes, is_backbone, read_backbone
from sparcl.backbone.store import PACKAGED, checked_name, file_of, find_backbone
from sparcl.errors import SparclError
from sparcl.files import write_bytes
from sparcl.graph import MAX_WIDTH, MODELS, Graph, build_model
from sparcl.hints import did_you_mean
from sparcl.network.parameters import Parameters
from sparcl.weights.file import UnusableError, WeightFile, shown
from sparcl.weights.load import Weights, load_weights
from sparcl.weights.names import Matches
from sparcl.weights.safetensors_file import looks_like_safetensors, read_safetensors

DEFAULT_SIZE = 128
MAX_FILE = 1 << 30


def import_backbone(
    file: str | os.PathLike[str],
    name: str | None = None,
    *,
    model: str | None = None,
    width: int | None = None,
    size: int | None = None,
    mean: tuple[float, ...] | None = None,
    std: tuple[float, ...] | None = None,
) -> tuple[Backbone, list[str]]:
    """Keep a network as a backbone; returns it, and what there is to say about it.

    The file: a state dict of PyTorch (never unpickled) or safetensors with the names of torchvision or timm, or one
    that `save_backbone` has written. Without `model` the network is recognised by its tensors. `name`: by default the
    file's. An imported backbone of the same name is replaced.
    """
    path = Path(file)
    name = checked_name(path.name.split(".")[0] if name is None else name)
    if name in PACKAGED:
        raise SparclError(f"{name} is the backbone that is part of SparCL. Give this one another name.")
    notes: list[str] = []
    try:
        if _is_backbone_file(path):
            if any(option is not None for option in (model, width, size, mean, std)):
                raise UnusableError("says itself which network it is and how pictures are prepared: give no options")
            content = _copied(path)
        else:
            content, notes = _converted(path, model, width, size or DEFAULT_SIZE, mean, std)
    except UnusableError as error:
        raise SparclError(f"{path} {error}.") from error
    write_bytes(file_of(name), content)
    backbone = find_backbone(name)
    backbone.parameters()
    return backbone, notes


def _is_backbone_file(path: Path) -> bool:
    if path.is_dir():
        return False
    file = WeightFile(path)
    if file.size > MAX_FILE:
        raise UnusableError(f"is larger than {MAX_FILE >> 20:,} MB")
    return looks_like_safetensors(file) and is_backbone(read_safetensors(file)[1])


def _copied(path: Path) -> bytes:
    """As it is, after everything in it was looked at."""
    read_backbone(path, path.stem).parameters()
    file = WeightFile(path)
    return file.read(0, file.size)


def _converted(
    path: Path, model: str | None, width: int | None, size: int, mean: Any, std: Any
) -> tuple[bytes, list[str]]:
    weights = load_weights(path)
    graph, parameters, matches = _recognised(weights, model, width, check_size(size))
    content = backbone_bytes(graph, parameters, size, mean or IMAGENET_MEAN, std or IMAGENET_STD)
    return content, [f"{len(matches.found)} tensors were loaded by {matches.how}."]


def _recognised(weights: Weights, model: str | None, width: int | None, size: int) -> tuple[Graph, Parameters, Matches]:
    """The network that has a place for every tensor of the file."""
    if model is not None and model not in MODELS:
        raise SparclError(f"There is no model called {model!r}{did_you_mean(model, list(MODELS))}")
    if width is None:
        first = (shape[0] for shape in weights.shapes.values() if len(shape) == 4 and shape[1] == CHANNELS)
        width = next(first, 0)
    if not 1 <= width <= MAX_WIDTH:
        raise UnusableError(f"has no first convolution over {CHANNELS} colours, and so is not a network for photos")
    for candidate in [model] if model else MODELS:
        try:
            graph = build_model(candidate, (CHANNELS, size, size), 1, width)
        except ValueError as problem:
            raise UnusableError(f"cannot take pictures of {size} pixels: {problem}") from problem
        parameters = Parameters(graph)
        try:
            matches = weights.copy_to(graph, parameters, with_classifier=False)
        except SparclError:
            if model:
                raise
            continue
        if not matches.unused:
            return graph, parameters, matches
        if model:
            extra = shown(matches.unused[0])
            raise UnusableError(f"is of another network: {model} has no place for {extra}")
    raise UnusableError(
        f"is none of the networks that are known by name ({', '.join(MODELS)}). "
        "Trace it with sparcl.from_torch, write it with sparcl.save_backbone, and import that file"
    )
