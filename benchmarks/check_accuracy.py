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
import subprocess
import sys
from pathlib import Path

# Below what a good learner reached with any seed, well above what one without replay did: docs/results.md.
GATES = {"class_il_snapshots": 42.0, "task_il_snapshots": 75.0}


def run(seed: int, without_replay: bool, out: Path, reuse: bool) -> dict[str, float]:
    """One run through the command line. One that is there was perhaps made by other code: only if asked is it used."""
    directory = out / f"{'no-replay' if without_replay else 'derpp'}-seed{seed}"
    if not reuse:
        shutil.rmtree(directory, ignore_errors=True)
    command = [sys.executable, "-m", "sparcl.cli.main", "run"]
    if (directory / "settings.json").exists():
        command += ["--resume", str(directory), "--json"]
    else:
        command += ["cifar10/derpp", "--protocol", "check", "--set", f"seed={seed}", "--out", str(directory), "--json"]
        command += ["--set", "buffer_size=0"] if without_replay else []
    finished = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if finished.returncode:
        sys.exit(finished.returncode)
    result = json.loads(finished.stdout)["result"]
    return {kind: result[kind]["average"] for kind in GATES}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1])
    parser.add_argument("--without-replay", action="store_true", help="switch replay off: the check must fail")
    parser.add_argument("--out", type=Path, default=Path("runs/check-accuracy"), help="directory of the runs")
    parser.add_argument("--reuse", action="store_true", help="continue or read runs that are there, instead of anew")
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
