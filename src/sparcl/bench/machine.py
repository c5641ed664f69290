"""Which machine a measurement belongs to."""

import datetime
import os
from dataclasses import asdict, dataclass

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
    load: float  # how many processes wanted to run in the minute before

    @classmethod
    def describe(cls, threads: int) -> "Machine":
        return cls(
            environment.processor(),
            available_cores(),
            threads,
            _engine.instruction_set(),
            environment.installed_version("torch"),
            datetime.datetime.now(datetime.UTC).date().isoformat(),
            os.getloadavg()[0],
        )

    def to_json(self) -> dict[str, object]:
        return asdict(self)

    def warning(self) -> str | None:
        """Said with the numbers, because it decides what they are worth."""
        if self.load < 0.5 * self.cores:
            return None
        return f"The machine was busy (load {self.load:.1f} on {self.cores} cores): times and ratios are unreliable."

    def __str__(self) -> str:
        threads = f"{self.threads} thread{'s' if self.threads > 1 else ''} on {self.cores} cores"
        torch = f", PyTorch {self.torch}" if self.torch else ""
        return f"{self.processor}, {threads}, {self.instruction_set}{torch}"
