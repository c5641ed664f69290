"""python -m benchmarks.model_fuzz: damage a model file ten thousand times and load what comes out, under sanitizers.

Each damaged file must be refused in one line or predict; a wrong memory access, a crash or a file that takes too long
ends the program with an error. With --example PREFIX only the model and some pictures are written, with what Python
says of them: PREFIX.sparcl, PREFIX-*.ppm, PREFIX.classes.
"""

import argparse
import json
import subprocess
from pathlib import Path

import numpy as np

from sparcl.bench import native_side
from sparcl.cli.predict import answers
from sparcl.deploy.writer import Preprocessing, write_model
from sparcl.graph import build_model
from sparcl.sparsity.layers import sparse_layers

BUILD = Path("build/native-tests")
PICTURES = 8


def write_example(prefix: Path) -> None:
    """A small sparse network that has learned nothing: what counts is that everyone says the same of a picture."""
    graph = build_model("resnet18", (3, 12, 12), 10, 4)
    network, generator = native_side.build(graph, sparse_layers(graph, 0.7)), np.random.default_rng(1)
    # With statistics of its own, its answers depend on what it sees.
    network.forward(generator.normal(size=(64, 3, 12, 12)).astype(np.float32), momentum=1.0)
    prefix.parent.mkdir(parents=True, exist_ok=True)
    path = prefix.with_name(prefix.name + ".sparcl")
    names, preprocessing = [f"class-{number}" for number in range(10)], Preprocessing((0.5,) * 3, (0.25,) * 3)
    write_model(path, graph, network.parameters, names, preprocessing, "float16")
    said: list[str] = []
    for number in range(PICTURES):
        height, width = 17 + 9 * number, 40 - 3 * number
        pixels = generator.integers(0, 256, (height // 4 + 1, width // 4 + 1, 3), np.uint8).repeat(4, 0).repeat(4, 1)
        file = prefix.with_name(f"{prefix.name}-{number}.ppm")
        header = f"P6\n# random blocks\n{width} {height}\n255\n".encode()
        file.write_bytes(header + np.ascontiguousarray(pixels[:height, :width]).tobytes())
        said += [json.loads(line)["class"] for line, _ in answers(path, [file], 1, as_json=True)]
    prefix.with_name(prefix.name + ".classes").write_text("".join(f"{name}\n" for name in said))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--example", type=Path, metavar="PREFIX", help="only write an example model and pictures")
    parser.add_argument("--count", type=int, default=10_000, help="how many damaged files")
    options = parser.parse_args()
    if options.example is not None:
        write_example(options.example)
        return
    write_example(Path("build/example"))
    settings = ["-S", "native/tests", "-B", str(BUILD), "-DSPARCL_SANITIZE=ON"]
    subprocess.run(["cmake", *settings], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", str(BUILD), "--target", "model_fuzz"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([str(BUILD / "model_fuzz"), "build/example.sparcl", str(options.count), "1"], check=True)


if __name__ == "__main__":
    main()
