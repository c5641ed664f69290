"""What other work on the machine costs us: a whole run, a training step and a prediction beside busy processes.

    python -m benchmarks.busy_machine                              # writes a table of ratios to the quiet machine
    python -m benchmarks.busy_machine --against ../old/.venv/bin/python   # and, quiet, an older version in turns

A busy process ("hog") computes without pause, pinned to one core, at the same priority. `together` is two of the
measured processes at once. Everything is measured in processes of its own, rounds in which all situations take turns;
the median of each situation counts. The whole benchmark needs a machine that is otherwise quiet.
"""

import contextlib
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.publish import parsed, parser, publish
from sparcl.bench.timing import in_turns

HOG = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"
MEASURED = {
    "digits/derpp, a run": "run",
    "ResNet-18 at 0.90, a training step": "step",
    "ResNet-18 at 0.90, one prediction": "predict",
}
SITUATIONS = ("quiet", "one core taken", "both cores taken", "together")


def main() -> None:
    arguments = parser(__doc__, "busy-machine")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--seconds", type=float, default=4.0, help="that a step and a prediction are repeated for")
    arguments.add_argument("--against", type=Path, help="the Python of another version, measured quiet, in turns")
    options = parsed(arguments)
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        sys.exit("This benchmark is about sharing two cores, and this process may use only one.")
    os.sched_setaffinity(0, cores)  # the children inherit it
    rows = []
    for name, kind in MEASURED.items():
        sides = {
            name: partial(measure, Path(sys.executable), kind, options.seconds, cores, name) for name in SITUATIONS
        }
        if options.against:
            sides["against"] = partial(measure, options.against, kind, options.seconds, cores, "quiet")
        medians = {side: statistics.median(found) for side, found in in_turns(sides, options.rounds).items()}
        quiet = medians["quiet"]
        row = [name, _time(quiet), *(f"{medians[situation] / quiet:.2f}" for situation in SITUATIONS[1:])]
        rows.append([*row, f"{quiet / medians['against']:.3f}"] if options.against else row)
        print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
    headings = ["", *SITUATIONS] + (["quiet, ratio to the older version"] if options.against else [])
    protocol = (
        "Two threads on two cores. Quiet: milliseconds; the others: ratios to it. A taken core runs a busy process; "
        f"together: two of these processes at once, the slower one. Medians of {options.rounds} rounds in turns."
    )
    publish(options, headings, rows, protocol, threads=2)


def _time(seconds: float) -> str:
    return f"{1000 * seconds:.3g}" if seconds < 1 else f"{1000 * seconds:.0f}"


@contextlib.contextmanager
def hogs(cores: list[int]) -> Iterator[None]:
    running = [subprocess.Popen([sys.executable, "-c", HOG, str(core)]) for core in cores]
    try:
        yield
    finally:
        for hog in running:
            hog.kill()
            hog.wait()


def measure(python: Path, kind: str, seconds: float, cores: list[int], situation: str) -> float:
    """Seconds of one repetition; of two processes at once, those of the slower one."""
    command = [str(python), str(Path(__file__).with_name("busy_child.py")), kind, str(seconds)]
    with hogs(cores[: {"one core taken": 1, "both cores taken": 2}.get(situation, 0)]):
        copies = 2 if situation == "together" else 1
        running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(copies)]
        outputs = [process.communicate()[0] for process in running]
    if any(process.returncode for process in running):
        sys.exit(f"{' '.join(command)} failed.")
    return max(float(output) for output in outputs)


if __name__ == "__main__":
    main()
