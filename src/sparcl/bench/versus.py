"""Whole steps of both sides: training or inference, at several sparsities."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from sparcl import _engine
from sparcl.bench import dense, native_side, onnx_side
from sparcl.bench.timing import Progress, Step, Times, interleaved, one_ms, without_the_slow
from sparcl.bench.workload import Workload
from sparcl.learning.tuning import summary
from sparcl.network.native import NativeNetwork

Kind = Literal["train", "infer"]
Spread = tuple[float, float]
BESIDE = (dense.BF16, onnx_side.NAME)  # shown, but not what the ratio is to
HOPELESS = 4.0  # so many times slower than float32, bf16 would take most of the time of a benchmark


@dataclass(frozen=True)
class Row:
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

    def to_json(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True)
class Protocol:
    """How to measure."""

    threads: int
    rounds: int
    compiled: bool = True  # whether torch.compile takes part
    tuning_seconds: float = 0.0  # for each sparsity, before training steps


def measure(
    kind: Kind,
    work: Workload,
    sparsities: Sequence[float],
    protocol: Protocol,
    note: Callable[[str], None],
    progress: Progress,
) -> list[Row]:
    """A row for each sparsity; all of them and the dense variants are measured in the same rounds."""
    if kind == "train":
        work.check_training()
    _engine.set_threads(protocol.threads)
    networks = {sparsity: native_side.network(work, sparsity) for sparsity in sparsities}
    if kind == "train" and protocol.tuning_seconds:
        _tune(networks, work, protocol.tuning_seconds, note, progress)
    make = native_side.training_step if kind == "train" else native_side.prediction
    steps = {str(sparsity): make(net, work) for sparsity, net in networks.items()}
    contenders = _contenders(kind, work, protocol, note, progress)
    measured = interleaved({**steps, **contenders}, protocol.rounds, progress, str(work))
    fp32 = {name: times for name, times in measured.items() if name in contenders and name not in BESIDE}
    fastest = min(fp32, key=lambda name: fp32[name].median_ms) if fp32 else None
    return [_row(work, protocol, sparsity, measured[str(sparsity)], fastest, measured) for sparsity in sparsities]


def _tune(
    networks: dict[float, NativeNetwork],
    work: Workload,
    seconds: float,
    note: Callable[[str], None],
    progress: Progress,
) -> None:
    for sparsity, net in networks.items():
        title = f"{work}: tuning for sparsity {sparsity:g}"

        def show(share: float, title: str = title) -> None:
            progress(title, round(100 * share), 100)

        found = native_side.tuned(net, work, seconds, show)
        note(f"{work}, sparsity {sparsity:g}: {summary(found)}")


def _contenders(
    kind: Kind, work: Workload, protocol: Protocol, note: Callable[[str], None], progress: Progress
) -> dict[str, Step]:
    """The dense variants that may be the fastest, and those that are shown beside them."""
    if not dense.available():
        note(dense.NEEDS_TORCH)
        return {}
    if not protocol.compiled:
        note("torch.compile did not take part: dense PyTorch may be faster than it seems here.")
    dense.set_threads(protocol.threads)
    progress(f"{work}: preparing PyTorch" + (" (compiling takes a minute)" if protocol.compiled else ""), 0, 0)
    make = dense.training_steps if kind == "train" else dense.prediction_steps
    variants = make(work, protocol.compiled, note)
    beside = {name: variants.pop(name) for name in BESIDE if name in variants}
    kept = without_the_slow(variants, progress, f"{work}: which dense variant is fastest")
    if dense.BF16 in beside:
        slower = one_ms(beside[dense.BF16]) / min(times.median_ms for times in kept.values())
        if slower > HOPELESS:
            del beside[dense.BF16]
            note(f"{work}: bf16 is left out, it takes {slower:.0f} times as long as float32 here.")
    if kind == "infer" and onnx_side.available():
        beside[onnx_side.NAME] = onnx_side.prediction(work, protocol.threads)
    elif kind == "infer":
        note(onnx_side.NEEDS_ONNX)
    return {name: variants[name] for name in kept} | beside


def _row(
    work: Workload, protocol: Protocol, sparsity: float, ours: Times, fastest: str | None, measured: dict[str, Times]
) -> Row:
    theirs = measured[fastest] if fastest is not None else None
    bf16, onnxruntime = (measured.get(name) for name in BESIDE)
    return Row(
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
    )
