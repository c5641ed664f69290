"""A small genetic algorithm over lists of choices: population, selection, crossover, mutation, a seeded generator.

`enumerate_all` is its baseline: a pass of a convolution has at most 75 choices, which can all be measured, given the
time. `python -m benchmarks.tuning_search` compares what both find.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

Genome = tuple[int, ...]  # for each gene, which of its choices

POPULATION = 8
PARENTS = 4
MUTATION = 0.35  # chance of each gene of a child to move to a neighbouring choice


class Search(Protocol):
    """`evolve` and `enumerate_all`."""

    def __call__(
        self,
        genes: Sequence[int],
        start: Sequence[Genome],
        cost: Callable[[Genome], float],
        generations: int,
        generator: np.random.Generator,
        out_of_time: Callable[[], bool],
    ) -> Genome: ...


def enumerate_all(
    genes: Sequence[int],
    start: Sequence[Genome],
    cost: Callable[[Genome], float],
    generations: int,
    generator: np.random.Generator,
    out_of_time: Callable[[], bool],
) -> Genome:
    """The cheapest of all genomes, or of those for which there was time. Called as `evolve` is."""
    known: dict[Genome, float] = {}
    for genome in itertools.chain(start, itertools.product(*map(range, genes))):
        if genome not in known and not (known and out_of_time()):
            known[genome] = cost(genome)
    return min(known, key=known.__getitem__)


def evolve(
    genes: Sequence[int],
    start: Sequence[Genome],
    cost: Callable[[Genome], float],
    generations: int,
    generator: np.random.Generator,
    out_of_time: Callable[[], bool],
) -> Genome:
    """The cheapest genome found. `genes`: how many choices each gene has, in an order where neighbours are alike."""
    known: dict[Genome, float] = {}

    def judge(population: Sequence[Genome]) -> None:
        for genome in population:
            if genome not in known and not (known and out_of_time()):
                known[genome] = cost(genome)

    randoms = [tuple(int(generator.integers(n)) for n in genes) for _ in range(POPULATION - len(start))]
    judge([*start, *randoms])
    for _ in range(generations):
        if out_of_time():
            break
        parents = sorted(known, key=known.__getitem__)[:PARENTS]
        judge([_child(parents, genes, generator) for _ in range(POPULATION)])
    return min(known, key=known.__getitem__)


def _child(parents: Sequence[Genome], genes: Sequence[int], generator: np.random.Generator) -> Genome:
    mother, father = (parents[int(generator.integers(len(parents)))] for _ in range(2))
    child = [mother[i] if generator.random() < 0.5 else father[i] for i in range(len(genes))]
    for i, choices in enumerate(genes):
        if generator.random() < MUTATION:
            child[i] = int(np.clip(child[i] + generator.choice((-1, 1)), 0, choices - 1))
    return tuple(child)
