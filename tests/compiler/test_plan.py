"""Plans of random graphs, run on an arena that remembers which buffer each of its floats belongs to."""

from collections import Counter
from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from random_graphs import graphs
from sparcl.compiler import Plan, PlanStep, compile_graph, unsupported
from sparcl.graph import Graph, GraphBuilder, build_model
from sparcl.operations import Conv, GlobalAveragePool, Linear, Relu

LANES = 4


@st.composite
def plans(draw):
    """Any layer may read any of the last few, so that maps have several readers or none; any part may be frozen."""
    graph = draw(graphs())
    names = [spec.name for spec in graph.parameters()]
    frozen = draw(st.sampled_from([[], names[: len(names) // 2], names[-1:], names]))
    return graph, compile_graph(graph, draw(st.integers(1, 9)), LANES, frozenset(frozen))


def reads(step: PlanStep) -> set[str]:
    """The buffers whose contents a step needs."""
    match step.op:
        case "pack" | "pack_gradient":
            needed = []
        case "combine":
            needed = [step.a, step.b, *(step.norm_states if step.recompute else [])]
        case "combine_backward":
            needed = [step.a, step.b, step.mask, *step.norm_states]
        case _:
            needed = [step.a, step.b, step.c]
    needed += [step.out if step.accumulate else "", state(step) if step.backward else ""]
    return {name for name in needed if name}


def state(step: PlanStep) -> str:
    """What an operation leaves for its backward pass."""
    return f"{step.layer}:state" if step.state else ""


def writes(step: PlanStep) -> set[str]:
    written = [step.out, step.a if step.write_gated else ""]
    if step.op == "combine" and not step.recompute:
        written += [step.mask, *step.norm_states]
    if not step.backward:
        written.append(state(step))
    return {name for name in written if name}


def stretch(plan: Plan, step: PlanStep, name: str) -> slice:
    """The part of the arena that a step takes for a buffer of its own."""
    start = plan.offset(name)
    if name in plan.extents:
        extent = plan.extents[name]
        return slice(start - LANES, start + plan.blocks * extent.channels * extent.plane * LANES)
    if name == state(step):
        return slice(start, start + step.state)
    extent = plan.extents[step.a]
    if name == step.mask:  # 16 bits a pixel
        return slice(start, start + -(-plan.blocks * extent.channels * extent.height * extent.width // 2))
    return slice(start, start + 4 * extent.channels)


@settings(max_examples=300)
@given(plans())
def test_a_step_finds_what_was_written_for_it(graph_and_plan):
    _, plan = graph_and_plan
    numbers: dict[str, int] = {}
    owner = np.full(plan.arena, -1)

    def is_there(step: PlanStep, name: str) -> bool:
        return name in numbers and bool((owner[stretch(plan, step, name)] == numbers[name]).all())

    for step in plan.steps:
        for name in reads(step):
            assert is_there(step, name), f"{name} was never written, or overwritten, before {step}"
        for name in writes(step):
            place = stretch(plan, step, name)
            assert place.start >= 0
            assert place.stop <= plan.arena
            owner[place] = numbers.setdefault(name, len(numbers))
        for name in reads(step) | writes(step):
            assert is_there(step, name), f"{step} overwrites {name}"


@settings(max_examples=300)
@given(plans())
def test_buffers_in_use_at_the_same_time_do_not_overlap(graph_and_plan):
    _, plan = graph_and_plan
    used: dict[str, list[int]] = {}
    places: dict[str, slice] = {}
    for number, step in enumerate(plan.steps):
        for name in reads(step) | writes(step):
            used.setdefault(name, []).append(number)
            places[name] = stretch(plan, step, name)
            assert plan.buffers[name].offset % 16 == 0
    for first, second in combinations(used, 2):
        if used[first][0] <= used[second][-1] and used[second][0] <= used[first][-1]:
            apart = places[first].stop <= places[second].start or places[second].stop <= places[first].start
            assert apart, f"{first} and {second}"


@settings(max_examples=300)
@given(plans())
def test_convolutions_read_maps_with_zeros_around(graph_and_plan):
    """Convolutions and data gradients write the pixels of their result and nothing around them; all else does."""
    graph, plan = graph_and_plan
    has_zeros: set[str] = set()
    for number, step in enumerate(plan.steps):
        if step.op in ("convolve", "data_gradient", "weight_gradient") and graph[step.layer].op.kernel == 3:
            extent = plan.extents[step.a]
            assert step.a in has_zeros or extent.row == extent.width, f"step {number}: {step}"
        if step.op == "convolve" or (step.op == "data_gradient" and not step.accumulate):
            has_zeros.discard(step.out)
        elif step.op != "data_gradient":
            has_zeros |= writes(step)


@settings(max_examples=100)
@given(plans())
def test_maps_that_are_combined_have_the_same_layout(graph_and_plan):
    _, plan = graph_and_plan
    for step in plan.steps:
        if step.op.startswith("combine"):
            assert len({plan.extents[name] for name in step.maps}) == 1


def test_what_is_frozen_costs_no_memory():
    graph = build_model("resnet18", (3, 32, 32), 10, 8)
    lower = {spec.name for spec in graph.parameters() if spec.name.startswith(("stem", "stage1", "stage2"))}
    whole, half = compile_graph(graph, 32, LANES), compile_graph(graph, 32, LANES, lower)
    assert half.arena < 0.6 * whole.arena
    backward = [step for step in half.steps[half.forward_steps :] if step.layer]
    assert backward
    assert not any(step.layer.startswith(("stem", "stage1", "stage2")) for step in backward)


def test_resnet_is_fused_completely():
    graph = build_model("resnet18", (3, 32, 32), 10, 8)
    plan = compile_graph(graph, 32, LANES)
    forward = Counter(step.op for step in plan.steps[: plan.forward_steps])
    backward = Counter(step.op for step in plan.steps[plan.forward_steps :])
    # The stem, 8 blocks of 2, 3 shortcuts; a block has a combination after each of its convolutions.
    assert forward == {"pack": 1, "convolve": 20, "combine": 17, "global_average_pool": 1, "linear": 1, "unpack": 1}
    # The images get no gradient. A combination has one norm, but for the 3 with a shortcut's too. What stands between
    # the convolutions of a block, and the stem, are computed again.
    assert backward == {
        "pack_gradient": 1,
        "convolve": 1,
        "combine": 9,
        "linear": 1,
        "global_average_pool": 1,
        "combine_backward": 20,
        "weight_gradient": 20,
        "data_gradient": 19,
    }
    shortcuts = [step for step in plan.steps if step.op == "data_gradient" and "shortcut" in step.layer]
    assert all(step.accumulate for step in shortcuts)  # else they would have to write zeros first


def with_conv(kernel: int, stride: int) -> Graph:
    build = GraphBuilder((3, 12, 12))
    x = build("conv", Conv(4, kernel, stride), build.input)
    return build.finish(build("linear", Linear(2), build("mean", GlobalAveragePool(), x)))


def test_what_the_engine_cannot_do_is_said():
    assert unsupported(with_conv(3, 2)) is None
    assert unsupported(with_conv(7, 4)) is None
    assert "9x9" in unsupported(with_conv(9, 1))
    assert "4x4" in unsupported(with_conv(4, 1))
    assert "stride 5" in unsupported(with_conv(3, 5))
    build = GraphBuilder((3, 4, 4))
    assert "last layer" in unsupported(build.finish(build("relu", Relu(), build.input)))
