"""What dynamic gradient masking brings on the clock, its own cost included.

    python -m benchmarks.gradient_masks [--width 64] [--rounds 5] [--into docs/performance.md]

Training steps of ResNet-18 on the engine with and without gradient masks, as a run takes them, in turns of a whole
refresh interval, so that choosing the masks and sorting the lists again is part of what is measured. Prints the ratio
of the medians: time without masks over time with masks. The claim: above 1 at every sparsity.
"""

import statistics
from functools import partial

from benchmarks.publish import parsed, parser, publish
from sparcl.bench.loop_side import loop_of, random_task, step_of
from sparcl.bench.timing import Step, in_turns, seconds_of
from sparcl.bench.workload import Workload
from sparcl.sparsity.sparcl import gradient_share

INTERVAL, EPOCH = 30, 100  # steps


def side(work: Workload, sparsity: float, masks: bool) -> Step:
    """A step of a run; masks of weights do not move, and no sample is removed."""
    sparsifier = {"name": "sparcl", "tdm": False, "ddr": False, "dgm": masks, "gradient_interval": INTERVAL}
    settings = {"method": "sgd", "sparsity": sparsity, "sparsifier": sparsifier, "backend": "native"}
    task = random_task(work, EPOCH * work.batch)
    return step_of(loop_of(work, task, settings), task)


def interval(step: Step) -> None:
    for _ in range(INTERVAL):
        step()


def main() -> None:
    arguments = parser(__doc__, "masks")
    arguments.add_argument("--width", type=int, default=64)
    arguments.add_argument("--rounds", type=int, default=5)
    options = parsed(arguments)
    work, rows = Workload(width=options.width), []
    for sparsity in (0.75, 0.90, 0.95):
        steps = {"without": side(work, sparsity, False), "masked": side(work, sparsity, True)}
        for step in steps.values():
            step()
        turns = {name: partial(seconds_of, partial(interval, step)) for name, step in steps.items()}
        found = in_turns(turns, options.rounds)
        plain, faster = (1000 * statistics.median(found[name]) / INTERVAL for name in steps)
        q = gradient_share(sparsity, None)
        rows.append((f"{sparsity:g}", f"{q:g}", f"{plain:.1f}", f"{faster:.1f}", f"{plain / faster:.3f}"))
    headings = ("sparsity", "q", "ms a step", "with gradient masks", "ratio")
    protocol = f"{work}; steps of a run, medians of {options.rounds} turns of {INTERVAL} steps."
    publish(options, headings, rows, protocol)


if __name__ == "__main__":
    main()
