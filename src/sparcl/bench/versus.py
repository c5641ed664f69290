"""Whole steps of both sides: training or inference, at several sparsities."""

import contextlib
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from sparcl.bench import dense, native_side, onnx_side
from sparcl.bench.contender import Contender, Side, start
from sparcl.bench.timing import LeftOutError, Note, Progress, Times, Turn, interleaved, without_the_slow
from sparcl.bench.watched import DEFAULT_LIMITS, Limits
from sparcl.bench.workload import Kind, Workload

Spread = tuple[float, float]
BESIDE = (dense.BF16, onnx_side.NAME)  # shown, but not what the ratio is to
HOPELESS = 4.0  # so many times slower than float32, bf16 would take most of the time of a benchmark


@dataclass(frozen=True)
class VersusRow:
    """Milliseconds a step: medians, with quartiles as the spread. The fastest dense float32 variant counts."""

    model: str
    width: int
    image_size: int
    batch: int
    sparsity: float
    threads: int
    native_ms: float
    native_spread: Spread
    dense_ms: float | None = None
    dense_spread: Spread | None = None
    dense_variant: str | None = None
    speedup: float | None = None
    dense_bf16_ms: float | None = None
    dense_bf16_spread: Spread | None = None
    onnxruntime_ms: float | None = None  # dense float32, shown beside PyTorch; only predicts
    onnxruntime_spread: Spread | None = None
    onnxruntime_share: float | None = None  # our time as a share of its time
    own_speedup: float | None = None  # over our own dense network, if that is measured too

    def to_json(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True)
class Protocol:
    """How to measure."""

    threads: int
    rounds: int
    compiled: bool = True  # whether torch.compile takes part
    tuning_seconds: float = 0.0  # for each sparsity, before training steps
    limits: Limits = DEFAULT_LIMITS  # of every process that takes part


def measure(
    kind: Kind,
    work: Workload,
    sparsities: Sequence[float],
    protocol: Protocol,
    note: Note,
    progress: Progress,
    rivals: Sequence[Side] | None = None,
) -> list[VersusRow]:
    """A row for each sparsity; all of them and the rivals (None: all there are) are measured in the same rounds."""
    work.check(kind)
    if rivals is None:
        rivals = _rivals(kind, work, protocol, note)
    with contextlib.ExitStack() as processes:
        ours = {}
        for sparsity in sparsities:
            ours[str(sparsity)] = _our_process(kind, work, sparsity, protocol, processes, note, progress)
        theirs = _rival_processes(work, rivals, protocol, processes, note, progress)
        turns = {name: contender.turn for name, contender in {**ours, **theirs}.items()}
        measured = interleaved(turns, protocol.rounds, note, progress, str(work))
    fp32 = {name: times for name, times in measured.items() if name in theirs and name not in BESIDE}
    fastest = min(fp32, key=lambda name: fp32[name].median_ms) if fp32 else None
    if fastest is None and rivals:
        note(f"{work}: no dense float32 variant could be measured. Shown is our side only.")
    return [_row(work, protocol, sparsity, measured[str(sparsity)], fastest, measured) for sparsity in sparsities]


def _our_process(
    kind: Kind,
    work: Workload,
    sparsity: float,
    protocol: Protocol,
    processes: contextlib.ExitStack,
    note: Note,
    progress: Progress,
) -> Contender:
    seconds = protocol.tuning_seconds if kind == "train" else 0.0
    limits = replace(protocol.limits, seconds=protocol.limits.seconds + seconds)
    contender = Contender(f"Our engine at sparsity {sparsity:g}", protocol.threads, limits, must_work=True)
    processes.enter_context(contender)
    arguments = {"work": work, "sparsity": sparsity, "threads": protocol.threads}
    if seconds:
        progress(f"{work}: tuning for sparsity {sparsity:g}", 0, 0)
        note(f"{work}, sparsity {sparsity:g}: {contender.call(native_side.tune_here, **arguments, seconds=seconds)}")
    contender.prepare(native_side.train_here if kind == "train" else native_side.predict_here, **arguments)
    return contender


def _rivals(kind: Kind, work: Workload, protocol: Protocol, note: Note) -> list[Side]:
    if not dense.available():
        note(dense.NEEDS_TORCH)
        return []
    if not protocol.compiled:
        note("torch.compile did not take part: dense PyTorch may be faster than it seems here.")
    rivals = dense.variants(kind, work, protocol.threads, protocol.compiled)
    if kind == "infer" and onnx_side.available():
        rivals.append(onnx_side.rival(work, protocol.threads))
    elif kind == "infer":
        note(onnx_side.NEEDS_ONNX)
    return rivals


def _rival_processes(
    work: Workload,
    rivals: Sequence[Side],
    protocol: Protocol,
    processes: contextlib.ExitStack,
    note: Note,
    progress: Progress,
) -> dict[str, Contender]:
    """The dense variants that may be the fastest, and those that are shown beside them; who fails is left out."""
    started: dict[str, Contender] = {}
    for rival in rivals:
        progress(f"{work}: preparing {rival.title}", 0, 0)
        started |= start(rival, protocol.threads, protocol.limits, processes, note)
    turns = {name: contender.turn for name, contender in started.items()}
    fp32 = {name: turn for name, turn in turns.items() if name not in BESIDE}
    kept = without_the_slow(fp32, note, progress, f"{work}: which dense variant is fastest")
    best_ms = min((times.median_ms for times in kept.values()), default=math.inf)
    beside = {name: turn for name, turn in turns.items() if name in BESIDE}
    if dense.BF16 in beside and _is_hopeless(beside[dense.BF16], best_ms, work, note):
        del beside[dense.BF16]
    for name, contender in started.items():
        if name not in kept and name not in beside:
            contender.close()  # its memory is of use to the others
    return {name: contender for name, contender in started.items() if name in kept or name in beside}


def _is_hopeless(turn: Turn, best_ms: float, work: Workload, note: Note) -> bool:
    """Whether bf16 would only take time."""
    try:
        (seconds,) = turn(1)
    except LeftOutError as failure:
        note(str(failure))
        return True
    slower = 1e3 * seconds / best_ms
    if slower > HOPELESS:
        note(f"{work}: bf16 is left out, it takes {slower:.0f} times as long as float32 here.")
    return slower > HOPELESS


def _row(
    work: Workload, protocol: Protocol, sparsity: float, ours: Times, fastest: str | None, measured: dict[str, Times]
) -> VersusRow:
    theirs = measured[fastest] if fastest is not None else None
    own_dense = measured.get(str(0.0)) if sparsity > 0 else None
    bf16, onnxruntime = (measured.get(name) for name in BESIDE)
    return VersusRow(
        model=work.model,
        width=work.width,
        image_size=work.image_size,
        batch=work.batch,
        sparsity=sparsity,
        threads=protocol.threads,
        native_ms=ours.median_ms,
        native_spread=ours.spread_ms,
        dense_ms=theirs.median_ms if theirs else None,
        dense_spread=theirs.spread_ms if theirs else None,
        dense_variant=fastest,
        speedup=theirs.median_ms / ours.median_ms if theirs else None,
        dense_bf16_ms=bf16.median_ms if bf16 else None,
        dense_bf16_spread=bf16.spread_ms if bf16 else None,
        onnxruntime_ms=onnxruntime.median_ms if onnxruntime else None,
        onnxruntime_spread=onnxruntime.spread_ms if onnxruntime else None,
        onnxruntime_share=ours.median_ms / onnxruntime.median_ms if onnxruntime else None,
        own_speedup=own_dense.median_ms / ours.median_ms if own_dense else None,
    )
