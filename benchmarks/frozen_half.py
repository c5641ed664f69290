"""What a step costs when the lower half of a network is frozen, and how much memory it needs.

    python -m benchmarks.frozen_half [--repeats 15] [--threads 2] [--into docs/performance.md]

The lower half ends where half of the multiply-accumulates are done. In turns, each in a process of its own: a step of
the whole network, a step with its lower half frozen, and the two halves as networks of their own: a forward pass of the
lower one, a step of the upper one. The claim: freezing leaves no more than the sum of these two (a ratio of about 1 or
less). Memory is the peak of the process beyond what it needed before there was a network.
"""

import contextlib
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from benchmarks.publish import parsed, parser, publish
from sparcl import _engine
from sparcl.bench import native_side
from sparcl.bench.contender import Contender
from sparcl.bench.memory_job import own_peak_mb
from sparcl.bench.tables import milliseconds, rounds
from sparcl.bench.timing import Step, Times, Turn, interleaved
from sparcl.bench.watched import DEFAULT_LIMITS
from sparcl.bench.workload import LEARNING_RATE, Workload
from sparcl.graph import Graph, GraphBuilder, Node
from sparcl.methods import cross_entropy
from sparcl.network import Sgd
from sparcl.network.native import NativeNetwork
from sparcl.network.part_rates import part_rates
from sparcl.operations import GlobalAveragePool, Linear
from sparcl.sparsity.layers import default_layers, sparse_layers

Part = Literal["whole", "frozen", "lower", "upper"]
MOBILENET, RESNET = Workload("mobilenet_v2", 32, 128, 32), Workload("resnet18", 64, 32, 32)
CASES = ((MOBILENET, 0.0), (MOBILENET, 0.75), (RESNET, 0.0), (RESNET, 0.9))


@dataclass(frozen=True)
class Half:
    """A network with a place between two layers where a single map passes."""

    graph: Graph
    place: int  # of the node that makes this map

    @classmethod
    def of(cls, graph: Graph) -> "Half":
        nodes, done, places = graph.nodes, 0, {}
        for place, node in enumerate(nodes[:-1]):
            done += graph.macs_of(node)
            read_later = {name for later in nodes[place + 1 :] for name in later.inputs}
            whole_layers = node.op.role != "convolution" and nodes[place + 1].op.role == "convolution"
            if whole_layers and not read_later & {earlier.name for earlier in nodes[:place]}:
                places[place] = abs(done - graph.macs() / 2)
        return cls(graph, min(places, key=lambda place: places[place]))

    def lower(self) -> Graph:
        """With a small classifier of its own: a network ends with one."""
        build = GraphBuilder(self.graph.input_shape)
        for node in self.graph.nodes[1 : self.place + 1]:
            build(node.name, node.op, *node.inputs)
        pooled = build("own.pool", GlobalAveragePool(), self.graph.nodes[self.place].name)
        return build.finish(build("own.classifier", Linear(self.graph.classes), pooled))

    def upper(self) -> Graph:
        cut = self.graph.nodes[self.place]
        build = GraphBuilder(cut.shape)
        for node in self.graph.nodes[self.place + 1 :]:
            inputs = [build.input if name == cut.name else name for name in node.inputs]
            last = build(node.name, node.op, *inputs)
        return build.finish(last)

    def frozen_nodes(self) -> list[Node]:
        return [node for node in self.graph.nodes[: self.place + 1] if self.graph.parameters_of(node)]


def network_of(graph: Graph, half: Half, sparsity: float, frozen: bool) -> NativeNetwork:
    """The same layers are sparse, whichever part of the network it is."""
    nodes = {node.name for node in graph}
    names = [name for name in default_layers(half.graph) if name in nodes]
    network = native_side.build(graph, sparse_layers(graph, sparsity, names=names) if sparsity else [])
    if frozen:
        rates = {node.name: 0.0 for node in half.frozen_nodes()}
        network.parameters.set_rates(part_rates(graph, rates))
    return network


def step_here(work: Workload, sparsity: float, threads: int, part: Part) -> Step:
    """In the process of a contender."""
    _engine.set_threads(threads)
    half = Half.of(work.graph())
    graph = {"whole": half.graph, "frozen": half.graph, "lower": half.lower(), "upper": half.upper()}[part]
    network = network_of(graph, half, sparsity, frozen=part in ("frozen", "lower"))
    images = np.random.default_rng(1).normal(size=(work.batch, *graph.input_shape)).astype(np.float32)
    loss, optimizer = cross_entropy(work.labels()), Sgd(network.parameters, LEARNING_RATE)

    def step() -> None:
        logits, context = network.forward(images)
        if part != "lower":
            network.backward(context, loss(logits)[1])
            optimizer.step()

    return step


@cache
def idle_mb() -> float:
    """What the process needs before there is a network; asked for the first time then."""
    return own_peak_mb()


def needed_mb() -> float:
    return own_peak_mb() - idle_mb()


def measure(work: Workload, sparsity: float, threads: int, repeats: int) -> tuple[dict[str, Times], dict[str, float]]:
    parts: tuple[Part, ...] = ("whole", "frozen", "lower", "upper")
    with contextlib.ExitStack() as processes:
        sides = {}
        for part in parts:
            title = f"{work}, {part}"
            sides[part] = processes.enter_context(Contender(title, threads, DEFAULT_LIMITS, must_work=True))
            sides[part].call(idle_mb)
            sides[part].prepare(step_here, work=work, sparsity=sparsity, threads=threads, part=part)
        turns: dict[str, Turn] = {name: side.turn for name, side in sides.items()}
        times = interleaved(turns, repeats, print, lambda *_: None, str(work))
        return times, {part: sides[part].call(needed_mb) for part in parts}


def main() -> None:
    arguments = parser(__doc__, "frozen")
    arguments.add_argument("--repeats", type=int, default=15)
    arguments.add_argument("--threads", type=int, default=2)
    options = parsed(arguments)
    rows = []
    for work, sparsity in CASES:
        times, memory = measure(work, sparsity, options.threads, options.repeats)
        ms = {name: found.median_ms for name, found in times.items()}
        rows.append(
            (
                f"{work.model}, {work.image_size}x{work.image_size}",
                f"{sparsity:g}",
                *(milliseconds(ms[name], times[name].spread_ms) for name in ("whole", "frozen", "lower", "upper")),
                f"{ms['frozen'] / (ms['lower'] + ms['upper']):.2f}",
                f"{memory['whole']:.0f}",
                f"{memory['frozen']:.0f}",
            )
        )
    headings = (
        "network",
        "sparsity",
        "step ms",
        "step ms, lower half frozen",
        "forward of the lower half ms",
        "step of the upper half ms",
        "frozen / sum of the two",
        "MB",
        "MB, lower half frozen",
    )
    protocol = f"Batches of {MOBILENET.batch}. {rounds(options.repeats)}"
    publish(options, headings, rows, protocol, options.threads)


if __name__ == "__main__":
    main()
