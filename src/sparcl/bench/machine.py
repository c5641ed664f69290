"""Which machine a measurement belongs to."""

import datetime
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from sparcl import _engine
from sparcl.learning import environment
from sparcl.network.backend import available_cores


@dataclass(frozen=True)
class Machine:
    processor: str
    cores: int
    threads: int
    instruction_set: str
    torch: str | None
    date: str
    others: float  # how many cores other work kept busy just before the measurement

    @classmethod
    def describe(cls, threads: int) -> "Machine":
        return cls(
            environment.processor(),
            available_cores(),
            threads,
            _engine.instruction_set(),
            environment.installed_version("torch"),
            datetime.datetime.now(datetime.UTC).date().isoformat(),
            _busy_cores(),
        )

    def to_json(self) -> dict[str, object]:
        return asdict(self)

    def warning(self) -> str | None:
        """Said with the numbers, because it decides what they are worth."""
        if self.others < 0.2 * self.cores:
            return None
        return f"Other work kept {self.others:.1f} of {self.cores} cores busy: times and ratios are less exact."

    def __str__(self) -> str:
        threads = f"{self.threads} thread{'s' if self.threads > 1 else ''} on {self.cores} cores"
        torch = f", PyTorch {self.torch}" if self.torch else ""
        return f"{self.processor}, {threads}, {self.instruction_set}{torch}"


def _busy_cores(seconds: float = 1.0) -> float:
    """How many cores are at work while this process sleeps; 0 where the system does not tell."""
    ticks = Path("/proc/stat")
    if not ticks.is_file():
        return 0.0

    def read() -> tuple[int, int]:
        counted = [int(field) for field in ticks.read_text().split("\n", 1)[0].split()[1:9]]
        idle = counted[3] + counted[4]  # idle and waiting for input or output
        return sum(counted) - idle, sum(counted)

    busy, total = read()
    time.sleep(seconds)
    busy_after, total_after = read()
    return available_cores() * (busy_after - busy) / max(total_after - total, 1)
