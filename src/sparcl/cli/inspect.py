"""`sparcl inspect`: look at a network."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from sparcl.checked import plain
from sparcl.cli.display import print_table
from sparcl.cli.plan import print_plan
from sparcl.errors import SparclError
from sparcl.graph import Graph, build_model
from sparcl.learning.run_directory import RunDirectory
from sparcl.report.sparsity_history import SparsityHistory

HELP = """Print a network: every node with its shape, parameters and multiply-accumulates (MACs).

Given a run directory instead: how its density, masks and samples changed during training.

\b
sparcl inspect resnet18                             # the network of the paper, for 32x32 images
sparcl inspect resnet18 --width 20 --image-size 64 --classes 200
sparcl inspect convnet --channels 1 --image-size 8
sparcl inspect runs/digits-sparcl-derpp-90-seed0    # how a run's weights and samples changed
sparcl inspect --plan cifar10/sparcl-derpp-95       # what the engine does step by step, and its memory
"""


def inspect(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A network, or a run directory.")] = "resnet18",
    width: Annotated[int, typer.Option(min=1, help="Channels of the first layer.")] = 64,
    image_size: Annotated[int, typer.Option(min=1, help="Height and width of the images.")] = 32,
    channels: Annotated[int, typer.Option(min=1, help="Channels of the images.")] = 3,
    classes: Annotated[int, typer.Option(min=1, help="Outputs of the classifier.")] = 10,
    plan: Annotated[
        str | None, typer.Option(metavar="PRESET", help="Print the engine's execution plan for this preset's network.")
    ] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="With --plan: images in a batch.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the same as JSON.")] = False,
) -> None:
    if plan is not None:
        print_plan(plan, batch, as_json)
        return
    if batch is not None:
        raise SparclError("--batch belongs to --plan, for example: sparcl inspect --plan digits/sparcl-derpp-90.")
    if (Path(model) / "settings.json").is_file():
        _print_run(RunDirectory.open(Path(model)), as_json)
        return
    try:
        graph = build_model(model, (channels, image_size, image_size), classes, width)
    except ValueError as error:
        raise SparclError(str(error)) from error
    if as_json:
        print(json.dumps(_as_json(graph)))
    else:
        _print(graph)


inspect.__doc__ = HELP


def _as_json(graph: Graph) -> dict[str, object]:
    nodes = [
        {
            "name": node.name,
            "op": node.op.name,
            "inputs": list(node.inputs),
            "shape": list(node.shape),
            "parameters": sum(spec.size for spec in graph.parameters_of(node)),
            "macs": graph.macs_of(node),
        }
        for node in graph
    ]
    return {"parameters": graph.parameter_count(), "macs": graph.macs(), "nodes": nodes}


def _print(graph: Graph) -> None:
    table = Table("node", "operation", "from", "shape", show_footer=True, box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("parameters", f"{graph.parameter_count():,}", justify="right")
    table.add_column("MACs", f"{graph.macs():,}", justify="right")
    for node in graph:
        operation = node.op.described()
        parameters = sum(spec.size for spec in graph.parameters_of(node))
        table.add_row(
            node.name,
            operation,
            ", ".join(node.inputs),
            "x".join(map(str, node.shape)),
            f"{parameters:,}" if parameters else "",
            f"{graph.macs_of(node):,}" if graph.macs_of(node) else "",
        )
    print_table(table)


def _print_run(directory: RunDirectory, as_json: bool) -> None:
    history = SparsityHistory.of(directory)
    if as_json:
        events = directory.events()
        epochs, adjustments = ([event for event in events if event["event"] == kind] for kind in ("epoch", "sparsity"))
        print(json.dumps({"epochs": epochs, "adjustments": adjustments, "layers": plain(history.layers())}))
        return
    over_time = Table("task", "epoch", title="over time", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("samples", "density", "updated", "removed", "grown", "loss", "accuracy"):
        over_time.add_column(heading, justify="right")
    for epoch in history.rows():
        over_time.add_row(*epoch)
    print_table(over_time)
    layers = Table("layer", title="layers at the last adjustment", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("active", "density", "removed in all", "grown in all", "there from the start"):
        layers.add_column(heading, justify="right")
    for name, layer in history.layers().items():
        start = layer.original_share
        layers.add_row(
            name.removesuffix(".weight"),
            f"{layer.active:,}",
            f"{layer.density:.3f}",
            f"{layer.removed:,}",
            f"{layer.grown:,}",
            "" if start is None else f"{start:.1%}",
        )
    if history.layers():
        print_table(layers)
