"""How the time of a training step grows with sparsity, width, batch and threads: one of them at a time."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from sparcl.bench.timing import Note, Progress
from sparcl.bench.versus import Protocol, VersusRow, measure
from sparcl.bench.watched import Limits
from sparcl.bench.workload import Workload

FACTORS = ("sparsity", "width", "batch", "threads")
USUAL = {"sparsity": 0.9, "width": 64, "batch": 32}


@dataclass(frozen=True)
class Ranges:
    """The values that each factor takes."""

    sparsity: Sequence[float]
    width: Sequence[int]
    batch: Sequence[int]
    threads: Sequence[int]


@dataclass(frozen=True)
class GrowthBase:
    """What the other factors are while one is varied: the usual value, or the nearest one in its range."""

    model: str
    image_size: int
    sparsity: float
    width: int
    batch: int
    threads: int

    @classmethod
    def within(cls, ranges: Ranges, model: str, image_size: int) -> "GrowthBase":
        sparsity = min(ranges.sparsity, key=lambda value: abs(value - USUAL["sparsity"]))
        width = min(ranges.width, key=lambda value: abs(value - USUAL["width"]))
        batch = min(ranges.batch, key=lambda value: abs(value - USUAL["batch"]))
        return cls(model, image_size, sparsity, width, batch, max(ranges.threads))

    def to_json(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True)
class Point:
    factor: str
    value: float
    row: VersusRow

    def to_json(self) -> dict[str, object]:
        return {"factor": self.factor, "value": self.value, **self.row.to_json()}


def measure_growth(
    base: GrowthBase,
    ranges: Ranges,
    rounds: int,
    compiled: bool,
    limits: Limits,
    note: Note,
    progress: Progress,
) -> list[Point]:
    known: dict[tuple[GrowthBase, tuple[float, ...]], list[VersusRow]] = {}

    def rows_of(at: GrowthBase, sparsities: Sequence[float]) -> list[VersusRow]:
        key = (at, tuple(sparsities))
        if key not in known:
            work = Workload(at.model, at.width, at.image_size, at.batch)
            protocol = Protocol(at.threads, rounds, compiled, limits=limits)
            known[key] = measure("train", work, sparsities, protocol, note, progress)
        return known[key]

    points = [
        Point("sparsity", row.sparsity, row)
        for row in rows_of(base, ranges.sparsity)  # all of them in the same rounds
    ]
    for factor in FACTORS[1:]:
        for value in getattr(ranges, factor):
            (row,) = rows_of(replace(base, **{factor: value}), [base.sparsity])
            points.append(Point(factor, value, row))
    return points
