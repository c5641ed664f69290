"""`sparcl predict` for one picture, from the start of the process to its end: seconds and peak memory.

    python -m benchmarks.predict_cold                        # the default network: width 32, pictures of 64x64
    python -m benchmarks.predict_cold --width 64 --sparsity 0.95

Beside it, in turns: Python that only imports NumPy, which is the part that no program of this kind can avoid.
The learner is made for the purpose, from a few random pictures; what it has learned does not matter for the time.
"""

import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.publish import parsed, parser, publish
from sparcl.bench.timing import in_turns
from sparcl.device.learner import Learner

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
    arguments.add_argument("--model", default="resnet18")
    arguments.add_argument("--width", type=int, default=32)
    arguments.add_argument("--image-size", type=int, default=64)
    arguments.add_argument("--sparsity", type=float, default=0.9)
    arguments.add_argument("--rounds", type=int, default=11)
    options = parsed(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        pixels = np.random.default_rng(0).integers(0, 256, (24, 480, 640, 3), np.uint8)
        shape = {"model": options.model, "width": options.width, "sparsity": options.sparsity}
        learner = Learner.create(folder / "learner", options.image_size, "none", epochs=1, **shape)
        learner.learn({"a": list(pixels[:12]), "b": list(pixels[12:])})
        Image.fromarray(pixels[0]).save(folder / "picture.jpg")
        predict = [str(Path(sys.executable).with_name("sparcl")), "predict", str(learner.directory)]
        sides = {
            "sparcl predict": [*predict, str(folder / "picture.jpg")],
            "import numpy": [sys.executable, "-c", "import numpy"],
        }
        found = in_turns({name: partial(measured, command) for name, command in sides.items()}, options.rounds)
        state = learner.states.path(1).stat().st_size / 1e6
    seconds = {name: statistics.median(value for value, _ in runs) for name, runs in found.items()}
    memory = {name: statistics.median(value for _, value in runs) for name, runs in found.items()}
    rows = [(name, f"{seconds[name]:.2f}", f"{memory[name]:.0f}") for name in sides]
    ratio = [of["sparcl predict"] / of["import numpy"] for of in (seconds, memory)]
    rows.append(("ratio", *(f"{value:.2f}" for value in ratio)))
    protocol = (
        f"{options.model} of width {options.width}, {options.image_size}x{options.image_size} pixels, "
        f"{100 * options.sparsity:.0f}% sparse (state {state:.1f} MB); a JPEG file of 640x480 pixels. "
        f"Whole processes, medians of {options.rounds} rounds in which both sides take turns."
    )
    publish(options, ("process", "seconds", "peak MB"), rows, protocol)


if __name__ == "__main__":
    main()
