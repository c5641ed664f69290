"""Whole trainings on Split CIFAR-10: SparCL-DER++ on the engine against dense DER++ on PyTorch, everything included.

    python -m benchmarks.end_to_end                        # one epoch a task, as long as dense training takes
    python -m benchmarks.end_to_end --images-per-task 960  # a tenth of it

Both sides are `sparcl run` in processes of their own, from start to exit: imports, data, training, evaluation, all.
The sparse run, which is short, is made before and after the dense one; the median counts.
"""

import contextlib
import math
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.commands import SPARCL
from benchmarks.publish import parsed, parser, publish
from sparcl.bench.watched import Limits, ProcessError, WatchedProcess
from sparcl.network.backend import available_cores

PATIENCE = 100  # a dense training that takes longer than this many sparse ones is taken to hang


def seconds(preset: str, directory: Path, changes: list[str], threads: int, limits: Limits) -> float:
    """Raises ProcessError."""
    command = [*SPARCL, "run", preset, "--quiet", "--out", str(directory)]
    for change in changes:
        command += ["--set", change]
    start = time.perf_counter()
    with contextlib.closing(WatchedProcess(command, threads, limits, stdout=subprocess.DEVNULL)) as process:
        process.finish()
        return time.perf_counter() - start


def main() -> None:
    arguments = parser(__doc__, "end-to-end")
    arguments.add_argument("--sparsity", type=int, default=95, help="percent")
    arguments.add_argument("--width", type=int, default=64)
    arguments.add_argument("--images-per-task", type=int, default=10000)
    arguments.add_argument("--tasks", type=int, default=5)
    arguments.add_argument("--threads", type=int, default=0, help="0: all cores")
    options = parsed(arguments)
    changes = [
        "epochs=1",
        f"width={options.width}",
        f"threads={options.threads}",
        f"data.images_per_task={options.images_per_task}",
        f"data.tasks={options.tasks}",
    ]
    sparse_preset = f"cifar10/sparcl-derpp-{options.sparsity}"
    with tempfile.TemporaryDirectory() as temporary:
        runs = Path(temporary)
        threads, notes = options.threads or available_cores(), []
        dense: float | None = None
        try:
            sparse = [seconds(sparse_preset, runs / "before", changes, threads, Limits(math.inf))]
            try:
                patience = Limits(PATIENCE * sparse[0])
                dense = seconds("cifar10/derpp", runs / "dense", [*changes, "backend=torch"], threads, patience)
            except ProcessError as failure:
                notes.append(f"Dense DER++ on PyTorch left out: {failure}.")
            sparse.append(seconds(sparse_preset, runs / "after", changes, threads, Limits(math.inf)))
        except ProcessError as failure:
            sys.exit(f"{sparse_preset} failed: {failure}.")
    middle = statistics.median(sparse)
    both = " and ".join(f"{value:.1f}" for value in sparse)
    theirs = ("-", "-") if dense is None else (f"{dense:.1f}", f"{dense / middle:.2f}")
    row = (theirs[0], f"{middle:.1f} ({both})", theirs[1])
    protocol = (
        f"Split CIFAR-10, ResNet-18 of width {options.width}, {options.tasks} tasks of {options.images_per_task} "
        "images, one epoch each; whole processes, the sparse one before and after the dense one."
    )
    headings = ("dense DER++ on PyTorch, s", f"{sparse_preset}, s", "ratio")
    publish(options, headings, [row], protocol, options.threads, notes)


if __name__ == "__main__":
    main()
