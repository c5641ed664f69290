"""All numbers of a network, each kind in one flat array and viewed by name.

Flat, so that a step of gradient descent, a checkpoint or a norm is one operation over one array. A dense convolution's
weight [out, in, ky, kx] lies in memory as [out, ky, kx, in], the order in which dense convolutions are fastest on CPUs;
the view by name has the usual order of axes.

A sparse weight is stored sparse: one number for each active position, and the sorted positions (in the flattened
[out, in, ky, kx]) beside it. Nothing dense stands behind it. A position is active because it is listed, whatever its
value: a weight that was just grown is zero and active.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sparcl.graph import Graph, ParameterSpec

Index = NDArray[np.int32]  # sorted positions
Scores = NDArray[np.floating]


def find(wanted: Index, index: Index) -> tuple[NDArray[np.bool_], Index]:
    """For each wanted position: whether it is in the (sorted) index, and if so at which place."""
    if not len(index) or not len(wanted):
        return np.zeros(len(wanted), bool), np.zeros(len(wanted), np.int32)
    place_of = np.full(max(index[-1], wanted[-1]) + 1, -1, np.int32)  # much faster than to search each one
    place_of[index] = np.arange(len(index), dtype=np.int32)
    places = place_of[wanted]
    return places >= 0, places


def places_that_stayed(before: Mapping[str, Index], after: Mapping[str, Index]) -> dict[str, tuple[Index, Index]]:
    """Of every sparse weight whose positions have changed: at which places the kept ones are, and were."""
    stayed = {}
    for name in before.keys() & after.keys():
        if before[name] is not after[name]:
            kept, places = find(after[name], before[name])
            stayed[name] = np.flatnonzero(kept).astype(np.int32), places[kept]
    return stayed


def top_k(scores: Scores, count: int) -> Index:
    """The sorted places of the `count` highest scores."""
    if not 0 <= count <= len(scores):
        raise ValueError(f"{count} of {len(scores)} positions cannot be kept")
    if count == 0:
        return np.zeros(0, np.int32)
    scores = np.where(np.isnan(scores), -np.inf, scores)  # what cannot be compared is the worst
    least = np.partition(scores, len(scores) - count)[len(scores) - count]  # of those that are kept
    better = np.flatnonzero(scores > least)
    equal = np.flatnonzero(scores == least)[: count - len(better)]
    return np.sort(np.concatenate([better, equal])).astype(np.int32)


def check_positions(spec: ParameterSpec, positions: Index) -> None:
    if len(positions) and (positions[0] < 0 or positions[-1] >= spec.size or (positions[1:] <= positions[:-1]).any()):
        raise ValueError(f"the positions of {spec.name} are not sorted, or outside of 0..{spec.size - 1}")


class FlatStore:
    """Named blocks in one flat array; the blocks named in `index` hold only the positions listed there."""

    def __init__(
        self, specs: list[ParameterSpec], dtype: DTypeLike = np.float32, index: Mapping[str, Index] | None = None
    ) -> None:
        self.specs = {spec.name: spec for spec in specs}
        self.index = dict(index or {})
        self.slices: dict[str, slice] = {}
        start = 0
        for spec in specs:
            stored = len(self.index[spec.name]) if spec.name in self.index else spec.size
            self.slices[spec.name] = slice(start, start + stored)
            start += stored
        self.flat: NDArray[np.floating] = np.zeros(start, dtype)

    def __iter__(self) -> Iterator[str]:
        return iter(self.specs)

    def __getitem__(self, name: str) -> NDArray[np.floating]:
        """A writable view of one block: with the shape of the parameter, or one-dimensional if it is stored sparse."""
        block = self.flat[self.slices[name]]
        shape = self.specs[name].shape
        if name in self.index:
            return block
        if len(shape) == 4:
            out, into, height, width = shape
            return block.reshape(out, height, width, into).transpose(0, 3, 1, 2)
        return block.reshape(shape)

    def dense(self, name: str) -> NDArray[np.floating]:
        """A copy of one parameter with every position, zero where nothing is stored."""
        if name not in self.index:
            return np.ascontiguousarray(self[name])
        full = np.zeros(self.specs[name].size, self.flat.dtype)
        full[self.index[name]] = self[name]
        return full.reshape(self.specs[name].shape)

    def moved_to(
        self, index: Mapping[str, Index], stayed: Mapping[str, tuple[Index, Index]] | None = None
    ) -> "FlatStore":
        """The same numbers with other active positions: kept ones keep their value, new ones are zero.

        `stayed` is what `places_that_stayed` tells, if somebody knows it already.
        """
        if stayed is None:
            stayed = places_that_stayed(self.index, index)
        moved = FlatStore(list(self.specs.values()), self.flat.dtype, index)
        for name in self:
            if name in stayed:
                now, before = stayed[name]
                moved[name][now] = self[name][before]
            elif (name in moved.index) == (name in self.index):
                moved[name][...] = self[name]
            elif name in self.index:
                moved[name][...] = self.dense(name)
            else:
                moved[name][...] = self.dense(name).ravel()[index[name]]
        return moved


class Parameters:
    """Values and gradients of everything that is trained, and the running statistics of batch normalisations."""

    def __init__(self, graph: Graph, dtype: DTypeLike = np.float32, index: Mapping[str, Index] | None = None) -> None:
        """`index`: the positions of weights that are sparse from the start; `set_index` says what it must be."""
        self.values = FlatStore(graph.parameters(), dtype, index)
        self.gradients = FlatStore(graph.parameters(), dtype, index)
        self.slots: dict[str, FlatStore] = {}  # what an optimizer remembers of each value, by the optimizer's names
        self.statistics = FlatStore(graph.statistics(), dtype)
        self.updated: dict[str, Index] = {}  # of a sparse weight: which stored values get gradients; absent: all
        self.rates: dict[str, float] = {}  # multipliers of the learning rate, by parameter; absent: 1
        self.frozen: frozenset[str] = frozenset()  # those with the rate 0: they never change and need no gradients
        self.layout = 0  # goes up whenever the stores are laid out anew, so that views of them must be taken again
        for node in graph:
            node.op.initialise_statistics(_owned(self.statistics, graph.statistics_of(node)))

    def copy(self) -> "Parameters":
        """The same values, statistics and active positions, in memory of their own; no gradients."""
        twin = object.__new__(Parameters)
        twin.values = self.values.moved_to(self.index)
        twin.gradients = FlatStore(list(self.values.specs.values()), self.values.flat.dtype, self.index)
        twin.slots = {}
        twin.statistics = self.statistics.moved_to({})
        twin.updated = {}
        twin.rates, twin.frozen = dict(self.rates), self.frozen
        twin.layout = 0
        return twin

    def add_gradients(self, flat: NDArray[Any]) -> None:
        """Add gradients that no backward pass gave, except where weights get none at the moment."""
        before = {name: self.gradients[name].copy() for name in self.updated}
        self.gradients.flat += flat
        for name, gradients in before.items():
            chosen = self.updated[name]
            gradients[chosen] = self.gradients[name][chosen]
            self.gradients[name][...] = gradients

    @property
    def index(self) -> Mapping[str, Index]:
        """The active positions of every sparse weight."""
        return self.values.index

    def set_index(self, changes: Mapping[str, Index]) -> None:
        """Change which positions are active. Removed and grown weights lose their value, gradient and slots."""
        for name, positions in changes.items():
            check_positions(self.values.specs[name], positions)
        index = {**self.index, **{name: np.asarray(positions, np.int32) for name, positions in changes.items()}}
        stayed = places_that_stayed(self.index, index)
        self.values = self.values.moved_to(index, stayed)
        self.gradients = self.gradients.moved_to(index, stayed)
        self.slots = {name: slot.moved_to(index, stayed) for name, slot in self.slots.items()}
        for name in changes:
            self.updated.pop(name, None)
        self.layout += 1

    def set_rates(self, rates: Mapping[str, float]) -> None:
        """Multiply the learning rate of some parameters; those with 0 are frozen."""
        self.rates = {name: rate for name, rate in rates.items() if rate != 1.0}
        self.frozen = frozenset(name for name, rate in rates.items() if rate == 0.0)
        self.layout += 1

    def initialise(self, graph: Graph, generator: "np.random.Generator") -> None:
        """Every operation knows how its parameters start."""
        for node in graph:
            node.op.initialise(_owned(self.values, graph.parameters_of(node)), generator)


def _owned(store: FlatStore, specs: list[ParameterSpec]) -> dict[str, NDArray[Any]]:
    """What a node owns, by the last part of its name."""
    return {spec.name.rpartition(".")[2]: store[spec.name] for spec in specs}
