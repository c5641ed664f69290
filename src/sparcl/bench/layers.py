"""Every convolution alone: its forward pass, data gradient and weight gradient on both sides."""

import contextlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sparcl.bench import dense, native_side
from sparcl.bench.contender import Contender
from sparcl.bench.timing import LeftOutError, Note, Progress, interleaved
from sparcl.bench.versus import Protocol
from sparcl.bench.workload import Workload
from sparcl.graph import Graph, Node
from sparcl.operations import Conv
from sparcl.sparsity.layers import sparse_layers

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
    note: Note,
    progress: Progress,
) -> list[LayerRow]:
    work.check("train")
    graph, rows = work.graph(), []
    convolutions = [node for node in graph if node.op.role == "convolution"]
    with contextlib.ExitStack() as processes:

        def start(title: str, must_work: bool = False) -> Contender:
            return processes.enter_context(Contender(title, protocol.threads, protocol.limits, must_work))

        ours = {str(sparsity): start(f"Our engine at sparsity {sparsity:g}", must_work=True) for sparsity in sparsities}
        theirs = {"dense": start("PyTorch")} if dense.available() else {}
        if not theirs:
            note(dense.NEEDS_TORCH)
        for place, node in enumerate(convolutions):
            for number, (name, op) in enumerate(PASSES.items()):
                progress("measuring convolutions", 3 * place + number, 3 * len(convolutions))
                if op == "data_gradient" and graph[node.inputs[0]] is graph.nodes[0]:
                    continue  # nobody needs the gradient of the images
                what = {"work": work, "threads": protocol.threads, "layer": node.name, "op": op}
                for sparsity in sparsities:
                    ours[str(sparsity)].prepare(native_side.convolve_here, sparsity=sparsity, **what)
                try:
                    for contender in theirs.values():
                        contender.prepare(dense.convolution_pass, **what)
                except LeftOutError as failure:
                    note(str(failure))
                    theirs = {}
                turns = {side: contender.turn for side, contender in {**ours, **theirs}.items()}
                measured = interleaved(turns, protocol.rounds, note, turn_seconds=TURN_SECONDS)
                theirs = {side: contender for side, contender in theirs.items() if side in measured}
                times = {side: result.median_ms for side, result in measured.items()}
                rows += [_row(graph, node, work.batch, sparsity, name, times) for sparsity in sparsities]
    return sorted(rows, key=lambda row: sparsities.index(row.sparsity))  # stable: the layers stay in order


def totals(rows: Sequence[LayerRow]) -> list[Total]:
    found = []
    for sparsity in dict.fromkeys(row.sparsity for row in rows):
        for name in (*PASSES, "all passes"):
            chosen = [row for row in rows if row.sparsity == sparsity and name in (row.work, "all passes")]
            ours = sum(row.native_ms for row in chosen)
            known = [row.dense_ms for row in chosen if row.dense_ms is not None]
            theirs = sum(known) if len(known) == len(chosen) else None  # a part of them is no sum
            found.append(Total(sparsity, name, ours, theirs, theirs / ours if theirs is not None else None))
    return found


def _row(graph: Graph, node: Node, batch: int, sparsity: float, name: str, times: dict[str, float]) -> LayerRow:
    assert isinstance(node.op, Conv)
    dense_flops = 2.0 * graph.macs_of(node) * batch
    active = {layer.name: layer.active() / layer.size for layer in sparse_layers(graph, sparsity)}
    density = active.get(f"{node.name}.weight", 1.0)
    ours, theirs = times[str(sparsity)], times.get("dense")
    return LayerRow(
        sparsity=sparsity,
        layer=node.name,
        density=density,
        inputs=graph[node.inputs[0]].shape[0],
        outputs=node.shape[0],
        size=node.shape[1],
        kernel=node.op.kernel,
        stride=node.op.stride,
        work=name,
        native_ms=ours,
        native_gflops=density * dense_flops / ours / 1e6,
        dense_ms=theirs,
        dense_gflops=dense_flops / theirs / 1e6 if theirs is not None else None,
        speedup=theirs / ours if theirs is not None else None,
    )
