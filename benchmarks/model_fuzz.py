"""python -m benchmarks.model_fuzz: damage model files ten thousand times and load what comes out, under sanitizers.

The files hold every operation that a model file may have: a sparse ResNet, a sparse MobileNetV2, and a network of all
the others. Each damaged file must be refused in one line or predict; a wrong memory access, a crash or a file that
takes too long ends the program with an error. With --example PREFIX only the models and some pictures are written, with
what Python says of them: PREFIX.sparcl, PREFIX-*.ppm, PREFIX.classes, PREFIX-of-*.sparcl.
"""

import argparse
import json
import subprocess
from pathlib import Path

import numpy as np

from sparcl.bench import native_side
from sparcl.cli.predict import answers
from sparcl.deploy.writer import Precision, Preprocessing, write_model
from sparcl.graph import Graph, GraphBuilder, build_model
from sparcl.operations import (
    AveragePool,
    BatchNorm,
    Concat,
    Conv,
    Dropout,
    Flatten,
    HardSwish,
    Linear,
    MaxPool,
    Relu6,
)
from sparcl.sparsity.layers import sparse_layers

BUILD = Path("build/native-tests")
PICTURES = 8


def every_operation() -> Graph:
    """A small network of what ResNets do not have."""
    build = GraphBuilder((3, 20, 14))
    x = build("stem", Conv(6, 7, 2), build.input)
    x = build("stem.norm", BatchNorm(), x)
    x = build("swish", HardSwish(), x)
    x = build("pool", MaxPool(3, 2, 1, ceil=True), x)
    narrow = build("narrow", Conv(4, 5, padding=1, padding_after=2), x)
    wide = build("wide", Conv(10, 1), x)
    wide = build("wide.relu6", Relu6(), wide)
    wide = build("depthwise", Conv(10, 5, groups=10, padding=1, padding_after=2), wide)
    wide = build("depthwise.norm", BatchNorm(), wide)
    wide = build("depthwise.swish", HardSwish(), wide)
    x = build("concat", Concat(), narrow, wide, narrow)
    x = build("norm", BatchNorm(), x)
    x = build("strided", Conv(18, 3, 2, groups=18), x)
    x = build("sparse", Conv(24, 1), x)
    x = build("average", AveragePool(2, 1, 1, count_padding=False), x)
    x = build("average2", AveragePool(3, 2, 1), x)
    x = build("dropout", Dropout(64), x)
    return build.finish(build("classifier", Linear(5), build("flatten", Flatten(), x)))


def write_corpus(prefix: Path) -> list[Path]:
    """The network of all operations in each precision, and a MobileNetV2."""
    graphs: dict[str, tuple[Graph, Precision]] = {
        "mobilenet": (build_model("mobilenet_v2", (3, 32, 32), 4, 4), "int8"),
        "float32": (every_operation(), "float32"),
        "float16": (every_operation(), "float16"),
        "int8": (every_operation(), "int8"),
    }
    paths = []
    for name, (graph, precision) in graphs.items():
        network = native_side.build(graph, sparse_layers(graph, 0.75))
        network.forward(np.random.default_rng(2).normal(size=(64, *graph.input_shape)).astype(np.float32), momentum=1.0)
        path = prefix.with_name(f"{prefix.name}-of-{name}.sparcl")
        classes = [str(number) for number in range(graph.classes)]
        write_model(path, graph, network.parameters, classes, Preprocessing((0.5,) * 3, (0.25,) * 3), precision)
        paths.append(path)
    return paths


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
    parser.add_argument("--seed", type=int, default=1, help="of the damage")
    options = parser.parse_args()
    prefix = options.example or Path("build/example")
    write_example(prefix)
    models = [prefix.with_name(prefix.name + ".sparcl"), *write_corpus(prefix)]
    if options.example is not None:
        return
    settings = ["-S", "native/tests", "-B", str(BUILD), "-DSPARCL_SANITIZE=ON"]
    subprocess.run(["cmake", *settings], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", str(BUILD), "--target", "model_fuzz"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([str(BUILD / "model_fuzz"), str(options.count), str(options.seed), *map(str, models)], check=True)


if __name__ == "__main__":
    main()
