"""`sparcl cost`: what training costs before it runs, and the costs in the paper next to ours."""

import json
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from sparcl.cli.display import print_table, progress_bar
from sparcl.cli.run import ChangeOption, PluginOption, ProtocolOption, chosen_settings
from sparcl.errors import SparclError
from sparcl.graph import build_model
from sparcl.learning.costs import network_cost, paper_network, training_plan
from sparcl.learning.planned_stream import stream_without_pictures
from sparcl.learning.run_directory import RunDirectory
from sparcl.metrics.costs import PHASES, CostCounter, NetworkCost
from sparcl.metrics.schedule import TrainingPlan, count_plan
from sparcl.network.part_rates import frozen_parameters
from sparcl.report.paper_costs import AGREES_WITHIN, REASONS, Cell, paper_cells
from sparcl.report.run_record import stored_costs

HELP = """Count what training costs, before or after it runs: FLOPs in two conventions, memory by the paper's formula.

For a PRESET, DATASET/METHOD (see `sparcl presets`) or a TOML file with settings, the cost is counted from the plan;
CIFAR-10 and Tiny-ImageNet need not be downloaded for it. For a finished run it is what was counted while it ran.
docs/costs.md explains the conventions.

\b
sparcl cost cifar10/derpp                           # the paper's protocol
sparcl cost cifar10/er --protocol reduced --layers  # each layer too
sparcl cost cifar10/sparcl-derpp-90                 # sparse
sparcl cost runs/digits-derpp-seed0                 # a finished run
sparcl cost --paper                                 # the paper's costs next to ours
"""


def cost(
    preset: Annotated[
        str | None, typer.Argument(metavar="PRESET", help="DATASET/METHOD, a TOML file, or a finished run.")
    ] = None,
    change: ChangeOption = None,
    protocol: ProtocolOption = None,
    plugin: PluginOption = None,
    layers: Annotated[bool, typer.Option("--layers", help="Print the cost of each layer too.")] = False,
    paper: Annotated[bool, typer.Option("--paper", help="Print every cost in the paper next to ours.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the same as JSON, complete.")] = False,
) -> None:
    if paper == (preset is not None):
        raise SparclError("Say what to count, for example: sparcl cost cifar10/derpp; or: sparcl cost --paper.")
    if preset is None:
        cells = list(paper_cells(paper_network((3, 32, 32), 10), paper_network((3, 64, 64), 200)))
        if as_json:
            print(json.dumps([cell.to_json() for cell in cells]))
        else:
            _print_cells(cells)
        return
    if (Path(preset) / "settings.json").is_file():
        _print_run(RunDirectory.open(Path(preset)), as_json)
        return
    chosen = chosen_settings(preset, protocol, change, plugin)
    with progress_bar() as progress:
        stream = stream_without_pictures(chosen, progress)
    graph = build_model(chosen.model, stream.image_shape, stream.classes, chosen.width)
    network = network_cost(graph, frozen_parameters(graph, chosen.rates))
    plan = training_plan(chosen, stream)
    if as_json:
        print(json.dumps(_plan_as_json(network, plan)))
    else:
        _print_plan(network, plan, layers)


cost.__doc__ = HELP


def _counters(network: NetworkCost, plan: TrainingPlan) -> tuple[CostCounter, CostCounter]:
    """For the paper's convention, and for the full one."""
    return count_plan(network, plan.nominal()), count_plan(network, plan)


def _memory_mb(network: NetworkCost, plan: TrainingPlan) -> float:
    sparse = plan.sparse
    return network.memory_bytes(plan.batch, sparse.sparsity, sparse.gradient_sparsity, plan.slots) / 1e6


def _plan_as_json(network: NetworkCost, plan: TrainingPlan) -> dict[str, object]:
    as_in_paper, complete = _counters(network, plan)
    return {
        "macs": network.macs,
        "density": network.density(plan.sparse.sparsity),
        "steps": plan.steps(),
        "paper": {
            "flops": as_in_paper.total("paper"),
            "phases": as_in_paper.by_phase("paper"),
            "layers": as_in_paper.by_layer("paper"),
        },
        "full": {
            "flops": complete.total("full"),
            "phases": complete.by_phase("full"),
            "layers": complete.by_layer("full"),
        },
        "memory_mb": _memory_mb(network, plan),
    }


def _print_plan(network: NetworkCost, plan: TrainingPlan, layers: bool) -> None:
    as_in_paper, complete = _counters(network, plan)
    paper_total, full_total = as_in_paper.total("paper"), complete.total("full")
    phases = Table(title="FLOPs of the whole training run", box=box.SIMPLE_HEAD, pad_edge=False, show_footer=True)
    phases.add_column("phase", "all")
    phases.add_column("paper", f"{paper_total:.3e}", justify="right")
    phases.add_column("full", f"{full_total:.3e}", justify="right")
    for phase in PHASES:
        in_paper, in_full = as_in_paper.by_phase("paper").get(phase, 0), complete.by_phase("full")[phase]
        if in_paper or in_full:
            phases.add_row(phase.replace("_", " "), f"{in_paper:.3e}" if in_paper else "-", f"{in_full:.3e}")
    console = Console()
    console.print(phases)
    if layers:
        console.print(_layer_table(network, plan, as_in_paper, complete))
    steps = plan.steps()
    kept = network.density(plan.sparse.sparsity)
    print(f"{steps:,} steps; {network.macs / 1e6:,.1f}M MACs a forward, {kept:.1%} of them kept.")
    print(f"Memory by the paper's formula: {_memory_mb(network, plan):.1f} MB.")


def _layer_table(network: NetworkCost, plan: TrainingPlan, as_in_paper: CostCounter, complete: CostCounter) -> Table:
    table = Table(title="FLOPs of each layer", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("layer", no_wrap=True)
    for heading in ("MACs", "weights kept", "paper", "full"):
        table.add_column(heading, justify="right")
    in_paper, in_full = as_in_paper.by_layer("paper"), complete.by_layer("full")
    for layer in network.layers:
        table.add_row(
            layer.name.removesuffix(".weight"),
            f"{layer.macs:,}",
            f"{layer.kept(plan.sparse.sparsity) / layer.weights:.1%}",
            f"{in_paper[layer.name]:.3e}",
            f"{in_full[layer.name]:.3e}",
        )
    return table


def _print_run(directory: RunDirectory, as_json: bool) -> None:
    """What was counted while a run went on."""
    costs = stored_costs(directory)
    if costs.flops is None:
        raise SparclError(f"{directory.path} has no counted costs; it was made by an older version.")
    if as_json:
        print(json.dumps(directory.costs()))
        return
    paper, full = costs.flops.paper, costs.flops.full
    table = Table(title="FLOPs that ran", box=box.SIMPLE_HEAD, pad_edge=False, show_footer=True)
    table.add_column("phase", "all")
    table.add_column("paper", f"{paper.total:.3e}", justify="right")
    table.add_column("full", f"{full.total:.3e}", justify="right")
    for phase, count in full.phases.items():
        in_paper = paper.phases.get(phase)
        if count:
            table.add_row(phase.replace("_", " "), "-" if in_paper is None else f"{in_paper:.3e}", f"{count:.3e}")
    print_table(table)
    if costs.steps is not None and costs.peak_memory_mb is not None:
        print(f"{costs.steps:,} steps; peak memory of the process {costs.peak_memory_mb:.0f} MB.")


def _print_cells(cells: Sequence[Cell]) -> None:
    """One table for each of the paper's, its two columns of costs side by side; deviations are marked."""
    console = Console()
    marks = {text: f"[{number}]" for number, text in enumerate(REASONS.values(), start=1)}
    for name, of_table in groupby(cells, key=lambda cell: cell.table):
        rows = [list(of_row) for _, of_row in groupby(of_table, key=lambda cell: cell.row)]
        first, second = (cell.column for cell in rows[0])
        title = f"Table {name}: {first}; {second}"
        table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), title_justify="left")
        table.add_column("row", no_wrap=True)
        for heading in ("paper", "ours", "diff    ") * 2:
            table.add_column(heading, justify="right", no_wrap=True)
        for row in rows:
            texts: list[str] = []
            for cell in row:
                mark = marks.get(cell.reason, "").replace("[", "\\[")
                texts += [f"{cell.paper:.{cell.digits}f}", f"{cell.ours:.2f}", f"{cell.deviation:+.2f} {mark or '   '}"]
            table.add_row(row[0].row, *texts)
        console.print(table)
    for text, mark in marks.items():
        console.print(f"{mark} {text}", markup=False, highlight=False)
    deviating = sum(cell.deviates for cell in cells)
    print(f"{len(cells)} cells; {len(cells) - deviating} agree within {AGREES_WITHIN} or round to the printed number.")
