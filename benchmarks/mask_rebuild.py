"""What it costs when every mask of a network changes: sorting all positions into the orders of the kernels.

    python -m benchmarks.mask_rebuild [--width 64] [--repeats 9] [--into docs/performance.md]

Prints medians in milliseconds, of sorting also as a share of a training step, measured in turns. The claim: below 50 ms
for ResNet-18 of width 64.
"""

import statistics
from functools import partial

import numpy as np

from benchmarks.publish import parsed, parser, publish
from sparcl.bench import native_side
from sparcl.bench.timing import seconds_of
from sparcl.bench.workload import Workload
from sparcl.sparsity.layers import sparse_layers
from sparcl.sparsity.masks import random_mask


def main() -> None:
    arguments = parser(__doc__, "rebuild")
    arguments.add_argument("--width", type=int, default=64)
    arguments.add_argument("--repeats", type=int, default=9)
    options = parsed(arguments)
    work, rows = Workload(width=options.width), []
    generator = np.random.default_rng(2)
    for sparsity in (0.75, 0.90, 0.95):
        network = native_side.network(work, sparsity)
        layers, step = sparse_layers(network.graph, sparsity), native_side.training_step(network, work)
        steps, sorts, moves = [], [], []
        step()
        for _ in range(options.repeats):
            index = {layer.name: random_mask(layer.size, layer.active(), generator) for layer in layers}
            steps.append(seconds_of(step))
            moves.append(seconds_of(partial(network.parameters.set_index, index)))
            sorts.append(seconds_of(network.prepare))
        whole, rebuild, moving = (statistics.median(times) for times in (steps, sorts, moves))
        rows.append((f"{sparsity:g}", f"{1000 * rebuild:.1f}", f"{rebuild / whole:.2f}", f"{1000 * moving:.1f}"))
    headings = ("sparsity", "ms to sort all masks", "as a share of a training step", "ms to move the stored weights")
    protocol = f"{work}; medians of {options.repeats}, in turns with plain steps."
    publish(options, headings, rows, protocol)


if __name__ == "__main__":
    main()
