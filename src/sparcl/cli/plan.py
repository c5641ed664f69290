"""`sparcl inspect --plan`: what the engine does with a network, step by step, and where it keeps its numbers."""

import json
from itertools import pairwise
from typing import Any

from rich import box
from rich.table import Table

from sparcl import _engine
from sparcl.bench.native_side import build
from sparcl.cli.display import print_table, progress_bar
from sparcl.cli.run import chosen_settings
from sparcl.compiler import Plan, PlanStep, compile_graph, place_apart
from sparcl.graph import Graph, build_model
from sparcl.learning.planned_stream import stream_without_pictures
from sparcl.network.folding import engine_nodes, fold
from sparcl.network.native import NativeNetwork
from sparcl.network.part_rates import frozen_parameters
from sparcl.sparsity.layers import layers_of

BYTES = 4  # of a float


def print_plan(preset: str, batch: int | None, as_json: bool) -> None:
    chosen = chosen_settings(preset, protocol=None, change=None, plugin=None)
    with progress_bar() as progress:
        stream = stream_without_pictures(chosen, progress)
    graph = build_model(chosen.model, stream.image_shape, stream.classes, chosen.width)
    frozen = frozen_parameters(graph, chosen.rates)
    net = build(graph, layers_of(graph, chosen.sparsity, chosen.sparsifier.options, frozen))
    images = batch or chosen.batch_size
    plan = net.program(images).plan
    inference = _engine.Model.from_nodes(engine_nodes(fold(graph, net.parameters))).steps
    content = {
        "preset": preset,
        "batch": images,
        "sparsity": chosen.sparsity,
        "instruction_set": _engine.instruction_set(),
        "lanes": plan.lanes,
        "steps": [_step(net, plan, number) for number in range(len(plan.steps))],
        "inference_steps": [{"number": number, **step} for number, step in enumerate(inference)],
        "buffers": [_buffer(plan, name) for name in plan.buffers],
        "memory": {"bytes": plan.arena * BYTES, "bytes_without_sharing": _apart(graph, images, plan.lanes) * BYTES},
    }
    if as_json:
        print(json.dumps(content))
    else:
        _print(content)


def _step(net: NativeNetwork, plan: Plan, number: int) -> dict[str, Any]:
    step = plan.steps[number]
    return {
        "number": number,
        "pass": "forward" if number < plan.forward_steps else "backward",
        "op": step.op,
        "layer": step.layer,
        "how": _how(net, step),
        "reads": [name for name in (step.a, step.b, step.c) if name],
        "writes": step.out,
        "bytes": plan.buffers[step.out].floats * BYTES if step.out else 0,
    }


def _how(net: NativeNetwork, step: PlanStep) -> str:
    """The kernel's knobs, or which of its parts are used."""
    match step.op:
        case "convolve" | "data_gradient" | "weight_gradient":
            return _knobs(net, step) + (", once more" if step.recompute else "")
        case "combine":
            return _combination(step, "a") + (", once more" if step.recompute else "")
        case "combine_backward":
            parts = (("norm", step.norm_a), ("gate of the activation", step.mask), ("adds", step.accumulate))
            return ", ".join(text for text, used in parts if used)
        case _:
            return net.graph[step.layer].op.described() if step.layer else ""


def _knobs(net: NativeNetwork, step: PlanStep) -> str:
    layer = net.convolutions[step.layer]
    if net.engine.uses_winograd(layer):
        text = "dense, Winograd's tiles 2x2"
    else:
        forward, data, gradient = net.engine.knobs(layer)
        shape = {"convolve": forward, "data_gradient": data, "weight_gradient": gradient}[step.op][0]
        channels = (data if step.op == "data_gradient" else forward)[1]
        rows, columns = _engine.TILE_SHAPES[shape]
        text = f"tiles {rows}x{columns}, blocks of {channels} channels"
        if step.op == "weight_gradient":
            text += f", threads share the {'batch' if gradient[1] else 'outputs'}"
    return f"{text}, adds" if step.accumulate else text


def _combination(step: PlanStep, first: str) -> str:
    operands = [f"norm({name})" if norm else name for name, norm in ((first, step.norm_a), ("b", step.norm_b))]
    total = " + ".join(operands if step.b else operands[:1])
    return f"{step.activation}({total})" if step.activation else total


def _buffer(plan: Plan, name: str) -> dict[str, Any]:
    buffer, extent = plan.buffers[name], plan.extents.get(name)
    return {
        "name": name,
        "shape": list(extent[:3]) if extent else None,  # of a map; norms and masks keep mere lists of numbers
        "row": extent.row if extent else None,
        "plane": extent.plane if extent else None,
        "bytes": buffer.floats * BYTES,
        "offset": buffer.offset * BYTES,
        "first_step": buffer.first,
        "last_step": buffer.last,
    }


def _apart(graph: Graph, images: int, lanes: int) -> int:
    """What the arena would be if no two buffers shared memory."""
    return place_apart(compile_graph(graph, images, lanes).buffers.values())


def _print(content: dict[str, Any]) -> None:
    images = f"{content['batch']} images in blocks of {content['lanes']} ({content['instruction_set']})"
    _print_steps(f"a training step of {images}", content["steps"])
    _print_inference(content["inference_steps"])
    _print_buffers(content["buffers"])
    shared, apart = (content["memory"][part] / 1e6 for part in ("bytes", "bytes_without_sharing"))
    print(f"Arena for training: {shared:.1f} MB; without sharing of memory {apart:.1f} MB.")


def _print_steps(title: str, steps: list[dict[str, Any]]) -> None:
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left")
    for heading in ("step", "operation", "layer", "how", "reads", "writes", "MB"):
        table.add_column(heading, no_wrap=True, justify="right" if heading in ("step", "MB") else "left")
    for before, step in pairwise([None, *steps]):
        assert step is not None
        if before is not None and before["pass"] != step["pass"]:
            table.add_section()
        size = f"{step['bytes'] / 1e6:.2f}" if step["bytes"] else ""
        cells = (step["op"], step["layer"], step["how"], ", ".join(step["reads"]), step["writes"], size)
        table.add_row(str(step["number"]), *cells)
    print_table(table)


def _print_inference(steps: list[dict[str, Any]]) -> None:
    """Batch normalisations are folded into the weights; residuals and activations are parts of the steps."""
    table = Table(title="predicting", box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left")
    for heading in ("step", "operation", "layer", "then", "reads map", "adds map", "writes map", "shape"):
        table.add_column(heading, no_wrap=True, justify="right" if heading == "step" else "left")
    for step in steps:
        then = "" if step["activation"] == "none" else step["activation"]
        cells = (step["op"], step["node"], then, step["in"], step["residual"], step["out"], step["shape"])
        table.add_row(str(step["number"]), *cells)
    print_table(table)


def _print_buffers(buffers: list[dict[str, Any]]) -> None:
    maps = Table(title="memory of a training step", box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left")
    maps.add_column("what", no_wrap=True)
    for heading in ("shape", "row, plane", "MB", "from step", "to step", "at MB"):
        maps.add_column(heading, no_wrap=True, justify="right")
    for buffer in buffers:
        maps.add_row(
            buffer["name"],
            "x".join(map(str, buffer["shape"])) if buffer["shape"] else "",
            f"{buffer['row']}, {buffer['plane']}" if buffer["shape"] else "",
            f"{buffer['bytes'] / 1e6:.3f}",
            str(buffer["first_step"]),
            str(buffer["last_step"]),
            f"{buffer['offset'] / 1e6:.2f}",
        )
    print_table(maps)
