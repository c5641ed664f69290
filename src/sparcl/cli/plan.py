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
from sparcl.network.native import NativeNetwork
from sparcl.network.part_rates import frozen_parameters
from sparcl.sparsity.layers import layers_of

TILE_SHAPES = ("1x1", "1x2", "1x4", "1x8", "1x16", "2x4", "2x8", "4x4")  # of native/kernels/kernels.h
BYTES = 4  # of a float


def print_plan(preset: str, batch: int | None, as_json: bool) -> None:
    chosen = chosen_settings(preset, protocol=None, change=None, plugin=None)
    with progress_bar() as progress:
        stream = stream_without_pictures(chosen, progress)
    graph = build_model(chosen.model, stream.image_shape, stream.classes, chosen.width)
    frozen = frozen_parameters(graph, chosen.rates)
    net = build(graph, layers_of(graph, chosen.sparsity, chosen.sparsifier.options, frozen))
    images = batch or chosen.batch_size
    plan, inference = net.program(images, backward=True).plan, net.program(images, backward=False).plan
    content = {
        "preset": preset,
        "batch": images,
        "sparsity": chosen.sparsity,
        "instruction_set": _engine.instruction_set(),
        "lanes": plan.lanes,
        "steps": [_step(net, plan, number) for number in range(len(plan.steps))],
        "inference_steps": [_step(net, inference, number) for number in range(len(inference.steps))],
        "buffers": [_buffer(plan, name) for name in plan.buffers],
        "memory": {
            "training": _memory(graph, images, plan.lanes, backward=True),
            "inference": _memory(graph, images, plan.lanes, backward=False),
        },
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
            return _knobs(net, step) + (", once more" if step.again else "")
        case "combine":
            return _combination(step, "a") + (", once more" if step.again else "")
        case "combine_backward":
            parts = (("norm", step.norm_a), ("gate of the ReLU", step.bits), ("adds", step.accumulate))
            return ", ".join(text for text, used in parts if used)
        case _:
            return f"{step.kernel}x{step.kernel}" if step.kernel else ""


def _knobs(net: NativeNetwork, step: PlanStep) -> str:
    layer = net.convolutions[step.layer]
    if net.engine.uses_winograd(layer):
        text = "dense, Winograd's tiles 2x2"
    else:
        forward, data, gradient = net.engine.knobs(layer)
        shape = {"convolve": forward, "data_gradient": data, "weight_gradient": gradient}[step.op][0]
        channels = (data if step.op == "data_gradient" else forward)[1]
        text = f"tiles {TILE_SHAPES[shape]}, blocks of {channels} channels"
        if step.op == "weight_gradient":
            text += f", threads share the {'batch' if gradient[1] else 'outputs'}"
    if step.accumulate:
        text += ", adds"
    folded = _combination(step, "y") if step.op == "convolve" else "y"  # in inference, what follows is folded in
    return text if folded == "y" else f"{text}, then {folded}"


def _combination(step: PlanStep, first: str) -> str:
    operands = [f"norm({name})" if norm else name for name, norm in ((first, step.norm_a), ("b", step.norm_b))]
    total = " + ".join(operands if step.b else operands[:1])
    return f"relu({total})" if step.relu else total


def _buffer(plan: Plan, name: str) -> dict[str, Any]:
    buffer, extent = plan.buffers[name], plan.extents.get(name)
    return {
        "name": name,
        "shape": list(extent[:3]) if extent else None,  # of a map; norms and signs keep mere lists of numbers
        "row": extent.row if extent else None,
        "plane": extent.plane if extent else None,
        "bytes": buffer.floats * BYTES,
        "offset": buffer.offset * BYTES,
        "first_step": buffer.first,
        "last_step": buffer.last,
    }


def _memory(graph: Graph, images: int, lanes: int, backward: bool) -> dict[str, int]:
    plan = compile_graph(graph, images, lanes, backward)
    shared = plan.arena
    return {"bytes": shared * BYTES, "bytes_without_sharing": place_apart(plan.buffers.values()) * BYTES}


def _print(content: dict[str, Any]) -> None:
    images = f"{content['batch']} images in blocks of {content['lanes']} ({content['instruction_set']})"
    _print_steps(f"a training step of {images}", content["steps"])
    _print_steps(f"predicting {images}", content["inference_steps"])
    _print_buffers(content["buffers"])
    for purpose, memory in content["memory"].items():
        shared, apart = memory["bytes"] / 1e6, memory["bytes_without_sharing"] / 1e6
        print(f"Arena for {purpose}: {shared:.1f} MB; without sharing of memory {apart:.1f} MB.")


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
