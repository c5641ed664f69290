"""What benchmarks/busy_machine.py measures, each in a process of its own: prints the seconds of one repetition.

python benchmarks/busy_child.py run|step|predict SECONDS

It is run as a file, also by the Python of an older version, whose package it then measures.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

SPARSITY = 0.9
THREADS = 2


def run() -> float:
    """From the start of the process to its end."""
    with tempfile.TemporaryDirectory() as temporary:
        options = ["--quiet", "--out", str(Path(temporary) / "run"), "--set", f"threads={THREADS}"]
        start = time.perf_counter()
        command = [sys.executable, "-m", "sparcl.cli.main", "run", "digits/derpp", *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - start


def repeated(kind: str, seconds: float) -> float:
    """The mean, because other work takes its share in pieces that are longer than a repetition."""
    from sparcl import _engine
    from sparcl.bench import native_side
    from sparcl.bench.workload import Workload

    _engine.set_threads(THREADS)
    work = Workload(batch=32 if kind == "step" else 1)
    network = native_side.network(work, SPARSITY)
    step: Callable[[], object]
    step = native_side.training_step(network, work) if kind == "step" else native_side.prediction(network, work)
    for _ in range(3):
        step()
    start, count = time.perf_counter(), 0
    while (passed := time.perf_counter() - start) < seconds:
        step()
        count += 1
    return passed / count


if __name__ == "__main__":
    print(run() if sys.argv[1] == "run" else repeated(sys.argv[1], float(sys.argv[2])))
