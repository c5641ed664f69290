"""Tells a broken learner from a good one: DER++ on three tasks of real CIFAR-10, two seeds, in about 10 minutes.

    python -m benchmarks.check_accuracy                       # exits non-zero if a gate is missed
    python -m benchmarks.check_accuracy --without-replay      # must miss the gates
    python -m benchmarks.check_accuracy --seeds 0 1 2 3 4     # to calibrate the gates

The gates are on means over the seeds, of accuracies that are themselves means over 12 snapshots with BN recalibration.
They stand well below what a good learner reaches and well above what it reaches with replay switched off; the
calibration is in docs/results.md.
"""

import argparse
import json
import shutil
import statistics
import sys
from pathlib import Path

from benchmarks.commands import sparcl

# Below what a good learner reached with any seed, well above what one without replay did: docs/results.md.
GATES = {"class_il_snapshots": 42.0, "task_il_snapshots": 75.0}


def run(seed: int, without_replay: bool, out: Path, reuse: bool) -> dict[str, float]:
    """One run of the command line. One that exists may have been made by other code, so it is used only if asked."""
    directory = out / f"{'no-replay' if without_replay else 'derpp'}-seed{seed}"
    if not reuse:
        shutil.rmtree(directory, ignore_errors=True)
    if (directory / "settings.json").exists():
        options = ["--resume", directory]
    else:
        options = ["cifar10/derpp", "--protocol", "check", "--set", f"seed={seed}", "--out", directory]
        options += ["--set", "buffer_size=0"] if without_replay else []
    result = json.loads(sparcl("run", *options, "--json"))["result"]
    return {kind: result[kind]["average"] for kind in GATES}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1])
    parser.add_argument("--without-replay", action="store_true", help="switch replay off: the check must fail")
    parser.add_argument("--out", type=Path, default=Path("runs/check-accuracy"), help="directory of the runs")
    parser.add_argument("--reuse", action="store_true", help="continue or read runs that exist already")
    options = parser.parse_args()
    results = []
    for seed in options.seeds:
        results.append(run(seed, options.without_replay, options.out, options.reuse))
        print(f"seed {seed}: " + ", ".join(f"{kind} {value:.2f}" for kind, value in results[-1].items()), flush=True)
    failed = False
    for kind, gate in GATES.items():
        mean = statistics.mean(result[kind] for result in results)
        verdict = "ok" if mean >= gate else "FAILED"
        failed |= mean < gate
        print(f"{kind}: mean {mean:.2f}, gate {gate:.2f}: {verdict}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
