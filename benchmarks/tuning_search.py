"""Whether the genetic search of the tuner finds what measuring every choice finds, and in how much less time.

    python -m benchmarks.tuning_search [--width 64] [--sparsity 0.9] [--rounds 9] [--into docs/performance.md]

Tunes the same network by both and measures training steps with the knobs of each, and with the defaults, in turns. The
claim: the genetic search is within 3% of the baseline. Two choices that differ by less are as good as each other.
"""

import time
from functools import partial

from benchmarks.publish import parsed, parser, publish
from sparcl.bench import native_side
from sparcl.bench.tables import milliseconds, rounds
from sparcl.bench.timing import interleaved, timed
from sparcl.bench.workload import Workload
from sparcl.tuning import apply, tune
from sparcl.tuning.genetic import Search, enumerate_all, evolve

SEARCHES: dict[str, Search | None] = {
    "every choice": enumerate_all,
    "genetic search": evolve,
    "default, no search": None,
}
ENOUGH = 3600.0  # seconds: none of them runs out of time


def main() -> None:
    arguments = parser(__doc__, "tuning-search")
    arguments.add_argument("--width", type=int, default=64)
    arguments.add_argument("--sparsity", type=float, default=0.9)
    arguments.add_argument("--rounds", type=int, default=9)
    options = parsed(arguments)
    work = Workload(width=options.width)
    steps, took = {}, {}
    for name, search in SEARCHES.items():
        network, start = native_side.network(work, options.sparsity), time.perf_counter()
        if search is not None:
            apply(network, tune(network, work.batch, ENOUGH, search=search))
        took[name] = time.perf_counter() - start
        steps[name] = native_side.training_step(network, work)
    measured = interleaved({name: partial(timed, step) for name, step in steps.items()}, options.rounds, print)
    fastest = measured["every choice"].median_ms
    rows = [
        (name, f"{took[name]:.0f}", milliseconds(times.median_ms, times.spread_ms), f"{times.median_ms / fastest:.3f}")
        for name, times in measured.items()
    ]
    headings = ("knobs from", "seconds to search", "ms a step", "ratio to every choice")
    publish(options, headings, rows, f"{work}, sparsity {options.sparsity:g}. {rounds(options.rounds)}")


if __name__ == "__main__":
    main()
