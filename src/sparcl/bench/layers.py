"""Every convolution alone: its forward pass, data gradient and weight gradient on both sides."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from sparcl import _engine
from sparcl.bench import dense, native_side
from sparcl.bench.timing import Progress, Step, interleaved
from sparcl.bench.versus import Protocol
from sparcl.bench.workload import Workload
from sparcl.graph import Graph, Node

PASSES = {"forward": "convolve", "data gradient": "data_gradient", "weight gradient": "weight_gradient"}
TURN_SECONDS = 0.02


@dataclass(frozen=True)
class LayerRow:
    """One pass of one convolution. A GFLOP counts what each side really computes: active weights, or all of them."""

    sparsity: float  # of the network
    layer: str
    density: float  # of this layer
    inputs: int
    outputs: int
    size: int  # of the output
    kernel: int
    stride: int
    work: str  # which pass
    native_ms: float
    native_gflops: float
    dense_ms: float | None
    dense_gflops: float | None
    speedup: float | None

    def to_json(self) -> dict[str, object]:
        values = asdict(self)
        return {("pass" if key == "work" else key): value for key, value in values.items()}


@dataclass(frozen=True)
class Total:
    """One pass over all convolutions, or all three."""

    sparsity: float
    work: str
    native_ms: float
    dense_ms: float | None
    speedup: float | None

    def to_json(self) -> dict[str, object]:
        values = asdict(self)
        return {("pass" if key == "work" else key): value for key, value in values.items()}


def measure_layers(
    work: Workload,
    sparsities: Sequence[float],
    protocol: Protocol,
    note: Callable[[str], None],
    progress: Progress,
) -> list[LayerRow]:
    _engine.set_threads(protocol.threads)
    graph = work.graph()
    networks = {sparsity: native_side.network(work, sparsity) for sparsity in sparsities}
    ours = {sparsity: native_side.SingleSteps(net, work) for sparsity, net in networks.items()}
    if dense.available():
        dense.set_threads(protocol.threads)
    else:
        note(dense.NEEDS_TORCH)
    rows = []
    convolutions = [node for node in graph if node.op == "conv"]
    for place, node in enumerate(convolutions):
        theirs = _dense_passes(graph, node, work.batch) if dense.available() else {}
        for number, (name, op) in enumerate(PASSES.items()):
            progress("measuring convolutions", 3 * place + number, 3 * len(convolutions))
            steps: dict[str, Step] = {}
            for sparsity, single in ours.items():
                step = single.of_layer(node.name, op)
                if step is not None:  # nobody needs the gradient of the images
                    steps[str(sparsity)] = step
            if steps and name in theirs:
                steps["dense"] = theirs[name]
            measured = interleaved(steps, protocol.rounds, turn_seconds=TURN_SECONDS)
            times = {contender: result.median_ms for contender, result in measured.items()}
            for sparsity, net in networks.items():
                if str(sparsity) in times:
                    index = net.parameters.index.get(f"{node.name}.weight")
                    active = graph.parameters_of(node)[0].size if index is None else len(index)
                    rows.append(_row(graph, node, work.batch, sparsity, active, name, times))
    return sorted(rows, key=lambda row: sparsities.index(row.sparsity))  # stable: the layers stay in order


def totals(rows: Sequence[LayerRow]) -> list[Total]:
    found = []
    for sparsity in dict.fromkeys(row.sparsity for row in rows):
        for name in (*PASSES, "all passes"):
            chosen = [row for row in rows if row.sparsity == sparsity and name in (row.work, "all passes")]
            ours = sum(row.native_ms for row in chosen)
            known = [row.dense_ms for row in chosen if row.dense_ms is not None]
            theirs = sum(known) if known else None
            found.append(Total(sparsity, name, ours, theirs, theirs / ours if theirs is not None else None))
    return found


def _row(
    graph: Graph, node: Node, batch: int, sparsity: float, active: int, name: str, times: dict[str, float]
) -> LayerRow:
    size = graph.parameters_of(node)[0].size
    dense_flops = 2.0 * graph.macs_of(node) * batch
    density = active / size
    ours, theirs = times[str(sparsity)], times.get("dense")
    return LayerRow(
        sparsity=sparsity,
        layer=node.name,
        density=density,
        inputs=graph[node.inputs[0]].shape[0],
        outputs=node.shape[0],
        size=node.shape[1],
        kernel=node.kernel,
        stride=node.stride,
        work=name,
        native_ms=ours,
        native_gflops=density * dense_flops / ours / 1e6,
        dense_ms=theirs,
        dense_gflops=dense_flops / theirs / 1e6 if theirs is not None else None,
        speedup=theirs / ours if theirs is not None else None,
    )


def _dense_passes(graph: Graph, node: Node, batch: int) -> dict[str, Step]:
    """PyTorch's three passes of a convolution, in channels-last order."""
    import torch

    random = np.random.default_rng(3)

    def tensor(shape: tuple[int, ...]) -> torch.Tensor:
        numbers = torch.from_numpy(random.normal(size=shape).astype(np.float32))
        return numbers.contiguous(memory_format=torch.channels_last)

    x = tensor((batch, *graph[node.inputs[0]].shape))
    weight, dy = tensor(graph.parameters_of(node)[0].shape), tensor((batch, *node.shape))
    stride, padding = [node.stride] * 2, [node.padding] * 2

    def backward(wanted: list[bool]) -> Step:
        return lambda: torch.ops.aten.convolution_backward(
            dy, x, weight, None, stride, padding, [1, 1], False, [0, 0], 1, wanted
        )

    return {
        "forward": lambda: torch.ops.aten.convolution(x, weight, None, stride, padding, [1, 1], False, [0, 0], 1),
        "data gradient": backward([True, False, False]),
        "weight gradient": backward([False, True, False]),
    }
