"""Kills a learner with SIGKILL at random moments of `learn`, and looks at what is left.

    python -m benchmarks.power_cut              # 30 cuts, less than a minute
    python -m benchmarks.power_cut --cuts 200

After each cut the directory must open and hold the state before or after, bit for bit; an interrupted learning session
must resume and end in exactly the state that an undisturbed one reaches. Exits non-zero otherwise.
"""

import argparse
import collections
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.small_learner import SETTINGS, content, digit_photos
from sparcl.device.learner import Learner


def killed_learn(directory: Path, folder: Path, delay: float) -> bool:
    """Learn in a process of its own, and kill it after some seconds; whether it was still at it."""
    child = os.fork()
    if not child:
        try:
            learner = Learner.open(directory)
            learner.resume() if learner.pending.exists() else learner.learn({"2": folder})
        finally:
            os._exit(0)
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuts", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    generator, seen = random.Random(options.seed), collections.Counter()
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        photos = digit_photos(root / "photos")
        learner = Learner.create(root / "before", **SETTINGS)
        learner.learn({"0": photos / "0", "1": photos / "1"})
        shutil.copytree(root / "before", root / "after")
        start = time.perf_counter()
        Learner.open(root / "after").learn({"2": photos / "2"})
        took = time.perf_counter() - start
        before, after = content(learner), content(Learner.open(root / "after"))
        for cut in range(options.cuts):
            directory = root / f"cut{cut}"
            shutil.copytree(root / "before", directory)
            if not killed_learn(directory, photos / "2", generator.uniform(0, took)):
                seen["was done before the cut"] += 1
            elif generator.random() < 0.3:
                killed_learn(directory, photos / "2", generator.uniform(0, took))  # and again while it resumes
            found = Learner.open(directory)
            if content(found) not in (before, after):
                sys.exit(f"cut {cut}: the directory holds neither the state before nor the one after")
            if content(found) == after:
                seen["state after"] += 1
            elif found.pending.exists():
                seen["state before, resumed"] += 1
                found.resume()
            else:
                seen["state before, learned again"] += 1
                found.learn({"2": photos / "2"})
            if content(Learner.open(directory)) != after:
                sys.exit(f"cut {cut}: resuming ended in another state than learning without a cut")
            shutil.rmtree(directory)
    print(f"{options.cuts} cuts: " + ", ".join(f"{count} {what}" for what, count in sorted(seen.items())))


if __name__ == "__main__":
    main()
