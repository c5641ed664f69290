"""What dynamic gradient masking brings on the clock, its own cost included.

    python -m benchmarks.gradient_masks [--width 64] [--rounds 5] [--into docs/performance.md]

Training steps of ResNet-18 on the engine with and without gradient masks, in turns of a whole refresh interval, so that
choosing the masks and sorting the lists anew is part of what is measured. Prints the ratio of the medians: time without
masks over time with masks. The claim: above 1 at every sparsity.
"""

import statistics
import time

import numpy as np

from benchmarks.publish import parsed, parser, publish
from sparcl.graph import build_model
from sparcl.methods import cross_entropy
from sparcl.network import Network, Sgd, build_network
from sparcl.sparsity.dgm import GradientMasks
from sparcl.sparsity.layers import sparse_layers
from sparcl.sparsity.masks import random_mask
from sparcl.sparsity.sparcl import gradient_share

BATCH, INTERVAL = 32, 30


class Side:
    def __init__(self, network: Network, masks: GradientMasks | None) -> None:
        self.network, self.masks = network, masks
        self.optimizer = Sgd(network.parameters, 0.03)
        generator = np.random.default_rng(1)
        self.images = generator.normal(size=(BATCH, *network.graph.input_shape)).astype(np.float32)
        self.loss = cross_entropy(generator.integers(0, network.graph.classes, BATCH))

    def step(self) -> None:
        if self.masks:
            self.masks.begin_step()
        logits, context = self.network.forward(self.images)
        self.network.backward(context, self.loss(logits)[1])
        if self.masks:
            self.masks.after_backward(only_replayed=False)
            self.masks.before_update()
        self.optimizer.step()

    def interval(self) -> float:
        start = time.perf_counter()
        for _ in range(INTERVAL):
            self.step()
        return (time.perf_counter() - start) / INTERVAL


def build(sparsity: float, width: int, q: float) -> Side:
    graph = build_model("resnet18", (3, 32, 32), 10, width)
    network = build_network(graph, np.random.default_rng(0), backend="native")
    layers = sparse_layers(graph, sparsity)
    generator = np.random.default_rng(0)
    network.parameters.set_index({layer.name: random_mask(layer.size, layer.active(), generator) for layer in layers})
    if not q:
        return Side(network, None)
    shares = {layer.name: layer.share(q) for layer in layers}
    masks = GradientMasks(
        network.parameters, layers, masked=shares, interval=INTERVAL, alpha=0.5, beta=1.0, score="cgi", average=0.0
    )
    return Side(network, masks)


def main() -> None:
    arguments = parser(__doc__, "masks")
    arguments.add_argument("--width", type=int, default=64)
    arguments.add_argument("--rounds", type=int, default=5)
    options = parsed(arguments)
    rows = []
    for sparsity in (0.75, 0.90, 0.95):
        q = gradient_share(sparsity, None)
        without, masked = build(sparsity, options.width, 0.0), build(sparsity, options.width, q)
        times: dict[Side, list[float]] = {without: [], masked: []}
        for side in times:
            side.step()
        for _ in range(options.rounds):
            for side, measured in times.items():
                measured.append(side.interval())
        plain, faster = (1000 * statistics.median(measured) for measured in times.values())
        rows.append((f"{sparsity:g}", f"{q:g}", f"{plain:.1f}", f"{faster:.1f}", f"{plain / faster:.3f}"))
    headings = ("sparsity", "q", "ms a step", "with gradient masks", "ratio")
    protocol = (
        f"ResNet-18 of width {options.width}, batch {BATCH}; medians of {options.rounds} turns of {INTERVAL} steps."
    )
    publish(options, headings, rows, protocol)


if __name__ == "__main__":
    main()
