"""Which tensor of a file belongs to which parameter of a graph.

Tried in turn: the graph's own names (as in our files, and as `from_torch` keeps them); the names that torchvision, timm
and others give to the same network; and, for a state dict, whose entries are in the order of the layers, order and
shape. All but the classifier must be there with the right shape. The classifier is taken over where it fits: another
task has other classes.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from sparcl.graph import Graph, ParameterSpec, Shape
from sparcl.weights.file import UnusableError, shown

Shapes = Mapping[str, Shape | None]  # by name, in the order of the file; None: any that its positions fit into

#: Of a batch normalisation in PyTorch, and of our dropout: whoever starts from weights begins to count anew.
COUNTERS = ("num_batches_tracked", "passes")


@dataclass(frozen=True)
class Matches:
    """By name of the graph, the name in the file; and what has no counterpart."""

    how: str
    found: Mapping[str, str]
    classifier: str  # why the classifier keeps its initial values, or nothing
    unused: tuple[str, ...]  # names in the file

    def notes(self) -> Iterator[str]:
        """For whoever starts with these weights."""
        yield f"{len(self.found)} tensors were loaded by {self.how}."
        if self.classifier:
            yield self.classifier
        if self.unused:
            yield f"Not used: {listed(self.unused)}."


def match(graph: Graph, shapes: Shapes, ordered: bool, with_classifier: bool = True) -> Matches:
    """Raises UnusableError if the file has not everything that the graph needs, `with_classifier` or without."""
    shapes = {name: shape for name, shape in shapes.items() if _part(name) not in COUNTERS}
    body, last = _specs(graph)
    attempts = [(how, _by_name(shapes, translate, _layer(last[0].name))) for how, translate in LAYOUTS.items()]
    how, names = max(attempts, key=lambda attempt: sum(spec.name in attempt[1] for spec in body))
    missing = [spec.name for spec in body if spec.name not in names]
    if missing and ordered:
        in_order = _by_order(shapes, body, last)
        if in_order is not None:
            how, names, missing = "their order and shapes", in_order, []
    if len(missing) == len(body):
        raise UnusableError(
            f"is of another network: it begins with {listed(list(shapes), 2)}, this one with {missing[0]}"
        )
    if missing:
        raise UnusableError(f"does not have everything that the network needs; it lacks {listed(missing)}")
    for spec in body:
        if not _fits(shapes[names[spec.name]], spec):
            raise UnusableError(_wrong_shape(names[spec.name], shapes[names[spec.name]], spec))
    found = {spec.name: names[spec.name] for spec in body}
    of_classifier = {spec.name: names[spec.name] for spec in last if spec.name in names}
    reason = (
        _classifier_stays(shapes, last, of_classifier)
        if with_classifier
        else f"{_layer(last[0].name)} keeps its initial values."
    )
    if not reason:
        found |= of_classifier
    used = {*found.values(), *of_classifier.values()}
    return Matches(how, found, reason, tuple(name for name in shapes if name not in used))


def _specs(graph: Graph) -> tuple[list[ParameterSpec], list[ParameterSpec]]:
    """All numbers of the graph in the order of its layers; those of the last layer that has any apart."""
    layers = [[*graph.parameters_of(node), *graph.statistics_of(node)] for node in graph]
    layers = [layer for layer in layers if layer and _part(layer[0].name) not in COUNTERS]
    return [spec for layer in layers[:-1] for spec in layer], layers[-1]


def _classifier_stays(shapes: Shapes, specs: list[ParameterSpec], names: Mapping[str, str]) -> str:
    """Why the classifier keeps its initial values; nothing if it need not."""
    layer = _layer(specs[0].name)
    if len(names) < len(specs):
        return f"{layer} keeps its initial values: the file has none."
    for spec in specs:
        shape = shapes[names[spec.name]]
        if not _fits(shape, spec):
            return (
                f"{layer} keeps its initial values: "
                f"{spec.name} is {_text(shape)} in the file and {_text(spec.shape)} here."
            )
    return ""


def _fits(shape: Shape | None, spec: ParameterSpec) -> bool:
    return shape is None or shape == spec.shape


def _wrong_shape(name: str, shape: Shape | None, spec: ParameterSpec) -> str:
    return f"does not fit: {shown(name)} has shape {_text(shape)}, and {spec.name} must have {_text(spec.shape)}"


def _text(shape: Shape | None) -> str:
    return "x".join(map(str, shape)) if shape else "of a single number"


def listed(names: "list[str] | tuple[str, ...]", most: int = 3) -> str:
    """ "a, b, c and 7 more"."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(shown(name) for name in names[:most]) + more


# By name

Translation = Callable[
    [list[str]], Mapping[str, str]
]  # from the layers of a file to those of a graph, where they differ
CLASSIFIERS = ("fc", "classifier", "linear", "head", "head.fc", "classifier.1", "last_linear")


def _by_name(shapes: Shapes, translate: Translation, classifier: str) -> dict[str, str]:
    """By the name that it would have in a graph, the name in the file. Wrappers put a name before all others."""
    prefix = _common_prefix(list(shapes))
    found: dict[str, str] = {}
    for start in dict.fromkeys(("", prefix)):
        names = {name: name.removeprefix(start) for name in shapes}
        layers = list(dict.fromkeys(map(_layer, names.values())))
        graph_layers = translate(layers)
        for name, short in names.items():
            layer = _layer(short)
            found.setdefault(f"{graph_layers.get(layer, layer)}.{_part(short)}", name)
        for name, short in names.items():
            if _layer(short) in CLASSIFIERS:
                found.setdefault(f"{classifier}.{_part(short)}", name)
    return found


def _common_prefix(names: list[str]) -> str:
    """ "module." of "module.conv1.weight", "module.fc.bias"."""
    parts = [name.split(".")[:-1] for name in (min(names, default=""), max(names, default=""))]
    same = []
    for one, other in zip(*parts, strict=False):
        if one != other:
            break
        same.append(f"{one}.")
    return "".join(same)


def _torchvision_resnet(layers: list[str]) -> dict[str, str]:
    """torchvision's and timm's ResNet as our ResNet for small images; `shortcut` is what others say for downsample."""
    found = {"conv1": "stem.conv", "bn1": "stem.bn"}
    for layer in layers:
        if parts := re.fullmatch(r"layer(\d)\.(\d{1,3})\.(?:(conv\d|bn\d)|(?:downsample|shortcut)\.([01]))", layer):
            inside = parts[3] or ("shortcut.conv", "shortcut.bn")[int(parts[4])]
            found[layer] = f"stage{parts[1]}.block{int(parts[2]) + 1}.{inside}"
    return found


def _shortcuts(layers: list[str]) -> dict[str, str]:
    """The same difference for networks that have torchvision's names."""
    return {layer: layer.replace(".shortcut.", ".downsample.") for layer in layers}


# In a block of timm's MobileNetV2: the layers, and where torchvision has them; the first block has no expansion.
TIMM_FIRST_BLOCK = {"conv_dw": "0.0", "bn1": "0.1", "conv_pw": "1", "bn2": "2"}
TIMM_BLOCK = {"conv_pw": "0.0", "bn1": "0.1", "conv_dw": "1.0", "bn2": "1.1", "conv_pwl": "2", "bn3": "3"}


def _timm_mobilenet(layers: list[str]) -> dict[str, str]:
    """timm counts stages and the blocks in each; torchvision counts blocks."""
    parts = [found for layer in layers if (found := re.fullmatch(r"blocks\.(\d{1,3})\.(\d{1,3})\.(\w+)", layer))]
    blocks = sorted({(int(found[1]), int(found[2])) for found in parts})
    numbers = {block: number for number, block in enumerate(blocks, 1)}
    last = f"features.{len(blocks) + 1}"
    names = {"conv_stem": "features.0.0", "bn1": "features.0.1", "conv_head": f"{last}.0", "bn2": f"{last}.1"}
    for found in parts:
        number = numbers[int(found[1]), int(found[2])]
        inside = (TIMM_FIRST_BLOCK if number == 1 else TIMM_BLOCK).get(found[3])
        if inside is not None:
            names[found[0]] = f"features.{number}.conv.{inside}"
    return names


LAYOUTS: dict[str, Translation] = {
    "their names": lambda layers: {},
    "the names of torchvision's ResNet": _torchvision_resnet,
    "the names of a ResNet with shortcuts": _shortcuts,
    "the names of timm's MobileNetV2": _timm_mobilenet,
}


# By order


def _by_order(shapes: Shapes, body: list[ParameterSpec], last: list[ParameterSpec]) -> dict[str, str] | None:
    """The file's tensors in the order of the graph's, if each has the right kind and shape; of the classifier the kind
    is enough."""
    names = list(shapes)
    if len(names) < len(body):
        return None
    for name, spec in zip(names, body, strict=False):
        if _part(name) != _part(spec.name) or shapes[name] != spec.shape:
            return None
    rest = names[len(body) :]
    found = dict(zip((spec.name for spec in body), names, strict=False))
    if [_part(name) for name in rest] == [_part(spec.name) for spec in last]:
        found |= dict(zip((spec.name for spec in last), rest, strict=True))
    return found


def _part(name: str) -> str:
    return name.rpartition(".")[2]


def _layer(name: str) -> str:
    return name.rpartition(".")[0]
