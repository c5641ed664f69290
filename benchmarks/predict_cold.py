"""`sparcl predict` for one picture and `sparcl learn` for two hundred, from the start of the process to its end.

    python -m benchmarks.predict_cold                        # both kinds of learner, as `sparcl new` makes them

Seconds and peak memory. Beside it, in turns: Python that only imports NumPy, which is the part that no program of this
kind can avoid. The learners are made for the purpose, from random pictures; what they have learned does not matter for
the time. The last row is an open learner in Python: what one more picture takes, decoding included.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.publish import parsed, parser, publish
from sparcl.bench.timing import in_turns
from sparcl.device.learner import Learner

PHOTOS, WARM = 200, 50

# Started from a small process, because what a process held before it became another one counts as its own.
LAUNCHER = """
import os, sys, time
start = time.perf_counter()
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(child, 0)
print(status, time.perf_counter() - start, usage.ru_maxrss * 1024 / 1e6, file=sys.stderr)
"""


def measured(command: list[str]) -> tuple[float, float]:
    """Seconds of wall time and MB of peak memory of a process."""
    launch = [sys.executable, "-S", "-c", LAUNCHER, *command]
    finished = subprocess.run(launch, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    status, seconds, megabytes = finished.stderr.split()[-3:]
    if status != "0":
        sys.exit(finished.stderr)
    return float(seconds), float(megabytes)


def main() -> None:
    arguments = parser(__doc__, "predict-cold")
    arguments.add_argument("--rounds", type=int, default=11)
    options = parsed(arguments)
    program = str(Path(sys.executable).with_name("sparcl"))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        pixels = np.random.default_rng(0).integers(0, 256, (PHOTOS, 480, 640, 3), np.uint8)
        for place, picture in enumerate(pixels):
            (folder / f"{place % 2}").mkdir(exist_ok=True)
            Image.fromarray(picture).save(folder / f"{place % 2}" / f"{place}.jpg")
        scratch = Learner.create(folder / "scratch", backbone="none", epochs=1)
        scratch.learn({"a": list(pixels[:12]), "b": list(pixels[12:24])})
        seeing = Learner.create(folder / "seeing")
        seeing.learn({"a": folder / "0", "b": folder / "1"})
        picture = str(folder / "0" / "0.jpg")
        Learner.create(folder / "empty")
        fresh = f"rm -rf {folder}/new; cp -r {folder}/empty {folder}/new"
        learn = f"{fresh}; exec {program} learn {folder}/new -q {folder}/[01]"
        sides = {
            "sparcl predict": [program, "predict", str(seeing.directory), picture],
            f"sparcl learn, {PHOTOS} photos of two classes": ["/bin/sh", "-c", learn],
            "sparcl predict, from scratch": [program, "predict", str(scratch.directory), picture],
            "import numpy": [sys.executable, "-c", "import numpy"],
        }
        found = in_turns({name: partial(measured, command) for name, command in sides.items()}, options.rounds)
        warm = []
        for _ in range(WARM):
            start = time.perf_counter()
            seeing.predict(picture)
            warm.append(time.perf_counter() - start)
    seconds = {name: statistics.median(value for value, _ in runs) for name, runs in found.items()}
    memory = {name: statistics.median(value for _, value in runs) for name, runs in found.items()}
    rows = [(name, f"{seconds[name]:.2f}", f"{memory[name]:.0f}") for name in sides]
    rows.append(("one more picture, open learner", f"{statistics.median(warm):.4f}", "-"))
    protocol = (
        "With a backbone: 128x128 pixels; from scratch: resnet18 of width 32, 64x64 pixels, 90% sparse. JPEG files of "
        f"640x480 pixels. Whole processes, medians of {options.rounds} rounds in which all sides take turns."
    )
    publish(options, ("process", "seconds", "peak MB"), rows, protocol)


if __name__ == "__main__":
    main()
