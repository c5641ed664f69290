"""Tuning the convolutions of a network: which tiles, which blocks of channels, how threads share the work.

Every choice computes the same numbers up to rounding; only the time differs. Layers of the same shape and density share
their result, and the passes that take longest are tuned first, so a short search already brings most of the gain.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparcl import _engine
from sparcl.graph import Node
from sparcl.network.native import NativeNetwork
from sparcl.operations import Conv
from sparcl.tuning.genetic import Genome, Search, evolve

TILES = tuple(_engine.TILE_SHAPES.index(shape) for shape in ((2, 4), (1, 8), (4, 4), (1, 16), (2, 8)))
CHANNELS = (4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512)
GENERATIONS = 4
WORTHWHILE = 0.98  # a choice that is less than this much faster than the default is not taken

PASSES = {"convolve": 0, "data_gradient": 1, "weight_gradient": 2}  # step -> place in a layer's knobs


@dataclass(frozen=True)
class Tuned:
    """What was found for one pass of the layers of one kind."""

    key: str
    layers: tuple[str, ...]
    knobs: tuple[Any, ...]
    default_ms: float
    tuned_ms: float


class _Bench:
    """Times single steps of a network's training plan."""

    def __init__(self, network: NativeNetwork, images: int) -> None:
        self.network = network
        self._gradients = network.parameters.gradients.flat.copy()  # the steps add to them
        self._touch_memory(images)
        self.program = network.program(images)
        self.arena = network.take(self.program.plan.arena)
        self.steps = {
            (step.layer, step.op): number for number, step in enumerate(self.program.plan.steps) if step.op in PASSES
        }

    def _touch_memory(self, images: int) -> None:
        """One real pass, so that the memory the steps read is neither untouched nor all zeros."""
        network = self.network
        noise = np.random.default_rng(0).normal(size=(images, *network.graph.input_shape)).astype(np.float32)
        logits, context = network.forward(noise, momentum=0.0)
        network.backward(context, logits / len(logits))

    def milliseconds(self, layer: str, op: str, repeats: int = 3) -> float:
        """The shortest of a few runs, after one that sorts the weight anew and warms the caches."""
        step = [self.steps[layer, op]]
        arrays = self.network.flat_arrays()
        self.network.engine.refresh(arrays[0], True, _engine.threads())
        self.program.compiled.run_steps(self.arena, step, *arrays, _engine.threads())
        times = []
        for _ in range(repeats):
            start = time.perf_counter()
            self.program.compiled.run_steps(self.arena, step, *arrays, _engine.threads())
            times.append(time.perf_counter() - start)
        return 1000 * min(times)

    def close(self) -> None:
        self.network.parameters.gradients.flat[...] = self._gradients
        self.network.give_back(self.arena)


def kind_of(network: NativeNetwork, node: Node, op: str, images: int) -> str:
    """What decides which knobs are best; densities within a few percent are one kind."""
    assert isinstance(node.op, Conv)
    inputs = network.graph[node.inputs[0]].shape
    index = network.parameters.index.get(f"{node.name}.weight")
    weights = network.graph.parameters_of(node)[0].size
    density = 1.0 if index is None else max(len(index), 1) / weights
    size = "x".join(map(str, inputs))
    return (
        f"{op} {size} to {node.shape[0]}, {node.op.kernel}x{node.op.kernel} stride {node.op.stride}, "
        f"density {density:.2g}, batch {images}, threads {_engine.threads()}"
    )


def tune(
    network: NativeNetwork,
    images: int,
    seconds: float,
    seed: int = 0,
    known: Mapping[str, Tuned] | None = None,
    progress: Callable[[float], None] = lambda share: None,
    keep: Callable[[Tuned], None] = lambda tuned: None,
    search: Search = evolve,
) -> list[Tuned]:
    """Search for at most so many seconds. Kinds in `known` are not searched again. The knobs are not applied yet.

    keep: told of each result as it is found, for whoever may break off the search.
    """
    network.prepare()
    kinds: dict[str, list[tuple[str, str]]] = {}
    for node in network.graph:
        if node.op.role == "convolution" and not network.engine.uses_winograd(network.convolutions[node.name]):
            for op in PASSES:
                kinds.setdefault(kind_of(network, node, op, images), []).append((node.name, op))
    bench = _Bench(network, images)
    try:
        return _tune(bench, kinds, seconds, seed, known or {}, progress, keep, search)
    finally:
        bench.close()


def _tune(
    bench: _Bench,
    kinds: dict[str, list[tuple[str, str]]],
    seconds: float,
    seed: int,
    known: Mapping[str, Tuned],
    progress: Callable[[float], None],
    keep: Callable[[Tuned], None],
    search: Search,
) -> list[Tuned]:
    kinds = {key: members for key, members in kinds.items() if members[0] in bench.steps}  # the first has no data pass
    found = [_renamed(known[key], members) for key, members in kinds.items() if key in known]
    missing = {key: members for key, members in kinds.items() if key not in known}
    deadline = time.monotonic() + seconds
    defaults = {key: bench.milliseconds(*members[0]) for key, members in missing.items()}
    total = sum(defaults[key] * len(members) for key, members in missing.items())
    done = 0.0
    generator = np.random.default_rng(seed)
    for key, members in sorted(missing.items(), key=lambda item: -defaults[item[0]] * len(item[1])):
        left = deadline - time.monotonic()
        if left <= 0:
            break
        share = defaults[key] * len(members) / max(total - done, 1e-9)
        until = time.monotonic() + max(0.2, left * min(1.0, 1.5 * share))
        found.append(_search(bench, key, members, until, generator, search))
        keep(found[-1])
        done += defaults[key] * len(members)
        progress(done / total)
    return found


def _renamed(tuned: Tuned, members: list[tuple[str, str]]) -> Tuned:
    names = tuple(name for name, _ in members)
    return Tuned(tuned.key, names, tuned.knobs, tuned.default_ms, tuned.tuned_ms)


def _search(
    bench: _Bench,
    key: str,
    members: list[tuple[str, str]],
    deadline: float,
    generator: np.random.Generator,
    search: Search,
) -> Tuned:
    name, op = members[0]
    place = PASSES[op]
    engine, layer = bench.network.engine, bench.network.convolutions[name]
    original = engine.knobs(layer)
    node = bench.network.graph[name]
    sources = node.shape[0] if op == "data_gradient" else bench.network.graph[node.inputs[0]].shape[0]
    channels = [count for count in CHANNELS if count < sources] + [sources]
    genes = (len(TILES), 2 if op == "weight_gradient" else len(channels))

    def decode(genome: Genome) -> tuple[Any, ...]:
        return TILES[genome[0]], bool(genome[1]) if op == "weight_gradient" else channels[genome[1]]

    def use(knobs: tuple[Any, ...]) -> None:
        changed: list[Any] = list(original)
        changed[place] = knobs
        engine.set_knobs(layer, *changed)

    def cost(genome: Genome) -> float:
        use(decode(genome))
        return bench.milliseconds(name, op)

    start = [_nearest(genes, decode, original[place])]
    best = decode(search(genes, start, cost, GENERATIONS, generator, lambda: time.monotonic() > deadline))
    # Chance favours some candidate among many: the winner must also win a second comparison, in turns.
    times: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(3):
        for chosen in (False, True):
            use(best if chosen else original[place])
            times[chosen].append(bench.milliseconds(name, op))
    engine.set_knobs(layer, *original)
    default_ms, tuned_ms = min(times[False]), min(times[True])
    names = tuple(member for member, _ in members)
    if tuned_ms > WORTHWHILE * default_ms:
        return Tuned(key, names, tuple(original[place]), default_ms, default_ms)
    return Tuned(key, names, best, default_ms, tuned_ms)


def _nearest(genes: tuple[int, ...], decode: Callable[[Genome], tuple[Any, ...]], wanted: tuple[Any, ...]) -> Genome:
    """The genome whose knobs are closest to the given ones."""
    every = [tuple(genome) for genome in np.ndindex(*genes)]
    return min(every, key=lambda genome: sum(abs(int(a) - int(b)) for a, b in zip(decode(genome), wanted, strict=True)))


def apply(network: NativeNetwork, results: list[Tuned]) -> None:
    """Use what was found."""
    for name, layer in network.convolutions.items():
        knobs: list[Any] = list(network.engine.knobs(layer))
        chosen = [tuned for tuned in results if name in tuned.layers]
        for tuned in chosen:
            knobs[PASSES[tuned.key.split()[0]]] = tuned.knobs
        if chosen:
            network.engine.set_knobs(layer, *knobs)
