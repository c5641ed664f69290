"""`sparcl tune`: find the fastest settings of the engine for a network on this machine."""

import json
import sys
from typing import Annotated

import numpy as np
import typer
from rich.table import Table

from sparcl.cli.display import print_table, progress_bar
from sparcl.cli.run import ChangeOption, PluginOption, PresetArgument, ProtocolOption, chosen_settings
from sparcl.errors import SparclError
from sparcl.graph import build_model
from sparcl.learning.planned_stream import stream_without_pictures
from sparcl.learning.tuning import summary, tuning_cache
from sparcl.network import build_network, choose_backend
from sparcl.network.native import NativeNetwork
from sparcl.sparsity.layers import layers_of
from sparcl.sparsity.masks import random_mask
from sparcl.tuning import Tuned, apply
from sparcl.tuning import tune as search

HELP = """Tune the engine for a preset's network: tiles, channel blocks and threads of every convolution and pass.

A genetic search measures candidates on this machine, starting with the slowest passes. What it finds is kept for all
later runs with the same layers, and changes results by no more than rounding. `sparcl run` does the same for a few
seconds before a long run; this command searches longer, and repeats the search with --again.

\b
sparcl tune cifar10/sparcl-derpp-95
sparcl tune cifar10/sparcl-derpp-90 --seconds 60 --again
"""


def tune(
    preset: PresetArgument = None,
    seconds: Annotated[float, typer.Option(help="Time limit of the search.", min=0.1)] = 30.0,
    seed: Annotated[int, typer.Option(help="Seed of the genetic search.", min=0)] = 0,
    again: Annotated[
        bool, typer.Option("--again", help="Repeat the search for layers that are already tuned.")
    ] = False,
    change: ChangeOption = None,
    protocol: ProtocolOption = None,
    plugin: PluginOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    chosen = chosen_settings(preset, protocol, change, plugin)
    with progress_bar() as progress:
        stream = stream_without_pictures(chosen, progress)
    graph = build_model(chosen.model, stream.image_shape, stream.classes, chosen.width)
    backend, reason = choose_backend("native", graph)
    generator = np.random.default_rng(chosen.seed)
    network = build_network(graph, generator, chosen.threads, backend, chosen.rates)
    if not isinstance(network, NativeNetwork):
        raise SparclError(f"There is nothing to tune: {reason}.")
    layers = layers_of(graph, chosen.sparsity, chosen.sparsifier.options, network.parameters.frozen)
    network.parameters.set_index({layer.name: random_mask(layer.size, layer.active(), generator) for layer in layers})
    cache, kept = tuning_cache(), list[Tuned]()
    try:
        with progress_bar(quiet=as_json) as bar:
            bar("tuning", 0, 100)
            results = search(
                network,
                chosen.batch_size,
                seconds,
                seed,
                known={} if again else cache.load(),
                progress=lambda share: bar("tuning", round(100 * share), 100),
                keep=kept.append,
            )
    except KeyboardInterrupt:
        cache.store(kept)
        print(f"Stopped. What was found so far ({len(kept)} kinds of passes) is in {cache.path}", file=sys.stderr)
        raise typer.Exit(130) from None
    cache.store(results)
    apply(network, results)
    if as_json:
        print(json.dumps({"found": [vars(tuned) for tuned in results], "cache": str(cache.path)}))
        return
    print_table(_table(results))
    print(summary(results))
    print(f"Kept in {cache.path}")


tune.__doc__ = HELP


def _table(results: list[Tuned]) -> Table:
    table = Table("pass and shape", "layers", "default ms", "tuned ms", "gain", "knobs", box=None, pad_edge=False)
    for tuned in sorted(results, key=lambda tuned: -tuned.default_ms * len(tuned.layers)):
        gain = f"{tuned.default_ms / tuned.tuned_ms:.2f}x" if tuned.tuned_ms else "-"
        knobs = ", ".join(str(knob) for knob in tuned.knobs)
        table.add_row(
            tuned.key, str(len(tuned.layers)), f"{tuned.default_ms:.2f}", f"{tuned.tuned_ms:.2f}", gain, knobs
        )
    return table
