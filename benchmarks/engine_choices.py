"""What each choice of the engine brings: training steps of ResNet-18 with it and without it, in turns.

    python -m benchmarks.engine_choices [--width 64] [--rounds 9] [--into docs/performance.md]

Prints how many times longer a step takes without the choice.
"""

from collections.abc import Callable
from functools import partial

from benchmarks.publish import parsed, parser, publish
from sparcl import _engine
from sparcl.bench import native_side
from sparcl.bench.timing import Step, interleaved, timed
from sparcl.bench.workload import Workload
from sparcl.network.backend import available_cores
from sparcl.network.native import NativeNetwork

SPARSITIES = (0.75, 0.90, 0.95)
EVERY_CHANNEL = 4096
ONE_BY_FOUR = 2  # a tile shape

Convolve = tuple[int, int]  # a tile shape, channels in a block
Gradient = tuple[int, bool]  # a tile shape, whether threads share the images
Knobs = tuple[Convolve, Convolve, Gradient]


def change(net: NativeNetwork, changed: Callable[[Convolve, Convolve, Gradient], Knobs]) -> NativeNetwork:
    """The same network with other knobs for every pass of every convolution."""
    net.predict(Workload(batch=1).images())  # binds the engine to the masks, on which the default knobs depend
    for layer in net.convolutions.values():
        net.engine.set_knobs(layer, *changed(*net.engine.knobs(layer)))
    return net


def sides(work: Workload, sparsity: float, threads: int) -> dict[str, Step]:
    def step(net: NativeNetwork) -> Step:
        return native_side.training_step(net, work)

    def with_threads(count: int, run: Step) -> Step:
        def counted() -> object:
            _engine.set_threads(count)
            return run()

        return counted

    def network() -> NativeNetwork:
        return native_side.network(work, sparsity)

    return {
        "as it is": with_threads(threads, step(network())),
        "compaction: a list of the active weights (without: a dense network)": with_threads(
            threads, step(native_side.network(work, 0.0))
        ),
        "order: blocks of input channels (without: all channels at once)": with_threads(
            threads, step(change(network(), lambda f, d, g: ((f[0], EVERY_CHANNEL), (d[0], EVERY_CHANNEL), g)))
        ),
        "tiles of 8 to 16 pixels in registers (without: of 4)": with_threads(
            threads,
            step(change(network(), lambda f, d, g: ((ONE_BY_FOUR, f[1]), (ONE_BY_FOUR, d[1]), (ONE_BY_FOUR, g[1])))),
        ),
        "balance: weight gradients shared by images (without: by output channels)": with_threads(
            threads, step(change(network(), lambda f, d, g: (f, d, (g[0], False))))
        ),
        f"{threads} threads (without: 1)": with_threads(1, step(network())),
    }


def main() -> None:
    arguments = parser(__doc__, "choices")
    arguments.add_argument("--width", type=int, default=64)
    arguments.add_argument("--rounds", type=int, default=9)
    options = parsed(arguments)
    threads, work = available_cores(), Workload(width=options.width)
    found: dict[str, list[str]] = {}
    for sparsity in SPARSITIES:
        turns = {name: partial(timed, step) for name, step in sides(work, sparsity, threads).items()}
        measured = interleaved(turns, options.rounds, note=print)
        usual = measured.pop("as it is").median_ms
        for name, times in measured.items():
            found.setdefault(name, []).append(f"{times.median_ms / usual:.2f}")
    publish(
        options,
        ("choice", *(f"times longer without it at {sparsity:g}" for sparsity in SPARSITIES)),
        [(name, *ratios) for name, ratios in found.items()],
        f"{work}. Ratios of medians of {options.rounds} rounds in which all variants take turns.",
    )


if __name__ == "__main__":
    main()
