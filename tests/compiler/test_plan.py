"""Plans of random graphs, run on an arena that remembers which buffer each of its floats belongs to."""

import random
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparcl.compiler import Plan, PlanStep, compile_graph, unsupported
from sparcl.graph import Graph, GraphBuilder, build_model

LANES = 4


def random_graph(seed: int) -> Graph:
    """Any layer may read any of the last few, so that maps have several readers or none."""
    choose = random.Random(seed)
    build = GraphBuilder((choose.randint(1, 3), *choose.choice([(4, 4), (8, 8), (5, 7), (1, 1), (16, 17)])))
    names = [build.input]

    def shape(name: str) -> tuple[int, ...]:
        return build.finish(names[-1])[name].shape

    for number in range(choose.randint(1, 12)):
        source = choose.choice(names[-4:])
        op = choose.choice(["conv", "conv", "conv", "batch_norm", "relu", "add", "max_pool"])
        name = f"{op}{number}"
        if op == "conv":
            kernel, stride = choose.choice([1, 3]), choose.choice([1, 2])
            build.conv(name, source, choose.choice([2, 3]), kernel, stride, bias=choose.random() < 0.4)
        elif op == "add":
            build.add(name, source, choose.choice([other for other in names if shape(other) == shape(source)]))
        elif op == "max_pool" and min(shape(source)[1:]) < 2:
            continue
        else:
            getattr(build, op)(name, source)
        names.append(name)
    x = build.global_average_pool("mean", names[-1])
    if choose.random() < 0.5:
        x = build.relu("hidden.relu", build.batch_norm("hidden.norm", build.linear("hidden", x, 3)))
    return build.finish(build.linear("linear", x, 4))


plans = st.builds(
    lambda seed, images, backward: (random_graph(seed), compile_graph(random_graph(seed), images, LANES, backward)),
    st.integers(0, 10**6),
    st.integers(1, 9),
    st.booleans(),
)


def reads(step: PlanStep) -> set[str]:
    """The buffers whose contents a step needs."""
    match step.op:
        case "pack" | "pack_gradient":
            needed = []
        case "combine":
            needed = [step.a, step.b, *(step.states if step.again else [])]
        case "combine_backward":
            needed = [step.a, step.b, step.bits, *step.states]
        case _:
            needed = [step.a, step.b, step.c]
    return {name for name in [*needed, step.out if step.accumulate else ""] if name}


def writes(step: PlanStep) -> set[str]:
    written = [step.out, step.a if step.write_gated else ""]
    if step.op == "combine" and not step.again:
        written += [step.bits, *step.states]
    return {name for name in written if name}


def stretch(plan: Plan, step: PlanStep, name: str) -> slice:
    """The part of the arena that a step takes for a buffer of its own."""
    start = plan.offset(name)
    if name in plan.extents:
        extent = plan.extents[name]
        return slice(start - LANES, start + plan.blocks * extent.channels * extent.plane * LANES)
    extent = plan.extents[step.a]
    if name == step.bits:  # 16 bits a pixel
        return slice(start, start + -(-plan.blocks * extent.channels * extent.height * extent.width // 2))
    return slice(start, start + 4 * extent.channels)


@settings(max_examples=300)
@given(plans)
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
@given(plans)
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
@given(plans)
def test_convolutions_read_maps_with_zeros_around(graph_and_plan):
    """Convolutions and data gradients write the pixels of their result and nothing around them; all else does, and so
    do convolutions with a folded norm, whose result is a finished map."""
    graph, plan = graph_and_plan
    has_zeros: set[str] = set()
    for number, step in enumerate(plan.steps):
        if step.op in ("convolve", "data_gradient", "weight_gradient") and graph[step.layer].kernel == 3:
            extent = plan.extents[step.a]
            assert step.a in has_zeros or extent.row == extent.width, f"step {number}: {step}"
        if (step.op == "convolve" and not step.norm_a) or (step.op == "data_gradient" and not step.accumulate):
            has_zeros.discard(step.out)
        elif step.op != "data_gradient":
            has_zeros |= writes(step)


@settings(max_examples=100)
@given(plans)
def test_maps_that_are_combined_have_the_same_layout(graph_and_plan):
    _, plan = graph_and_plan
    for step in plan.steps:
        if step.op.startswith("combine"):
            assert len({plan.extents[name] for name in step.maps}) == 1


@pytest.mark.parametrize("images", [1, 33])
@pytest.mark.parametrize(("model", "shape"), [("resnet18", (3, 32, 32)), ("convnet", (1, 8, 8))])
def test_inference_needs_less_memory_than_training(model, shape, images):
    graph = build_model(model, shape, 10, 8)
    training, inference = (compile_graph(graph, images, LANES, backward) for backward in (True, False))
    assert inference.arena < training.arena
    assert inference.forward_steps == len(inference.steps)
    assert not any(step.op == "combine" for step in inference.steps)  # all folded into the convolutions
    # A block of ResNet needs its input, its output and what lies between: three maps and a little more.
    largest = max(buffer.floats for buffer in inference.buffers.values())
    assert inference.arena < 4 * largest


def test_resnet_is_fused_completely():
    graph = build_model("resnet18", (3, 32, 32), 10, 8)
    plan = compile_graph(graph, 32, LANES)
    forward = Counter(step.op for step in plan.steps[: plan.forward_steps])
    backward = Counter(step.op for step in plan.steps[plan.forward_steps :])
    # The stem, 8 blocks of 2, 3 shortcuts; a block has a combination after each of its convolutions.
    assert forward == {"pack": 1, "convolve": 20, "combine": 17, "average_pool": 1, "linear": 1, "unpack": 1}
    # The images get no gradient. A combination has one norm, but for the 3 with a shortcut's too. What stands between
    # the convolutions of a block, and the stem, are computed again.
    assert backward == {
        "pack_gradient": 1,
        "convolve": 1,
        "combine": 9,
        "linear_backward": 1,
        "average_pool_backward": 1,
        "combine_backward": 20,
        "weight_gradient": 20,
        "data_gradient": 19,
    }
    shortcuts = [step for step in plan.steps if step.op == "data_gradient" and "shortcut" in step.layer]
    assert all(step.accumulate for step in shortcuts)  # else they would have to write zeros first
    inference = Counter(step.op for step in compile_graph(graph, 32, LANES, backward=False).steps)
    assert inference == {"pack": 1, "convolve": 20, "average_pool": 1, "linear": 1, "unpack": 1}


def with_conv(kernel: int, stride: int) -> Graph:
    build = GraphBuilder((3, 12, 12))
    x = build.conv("conv", build.input, 4, kernel, stride)
    return build.finish(build.linear("linear", build.global_average_pool("mean", x), 2))


def test_what_the_engine_cannot_do_is_said():
    assert unsupported(with_conv(3, 2)) is None
    assert "5x5" in unsupported(with_conv(5, 1))
    assert "stride 3" in unsupported(with_conv(3, 3))
    build = GraphBuilder((3, 4, 4))
    assert "last layer" in unsupported(build.finish(build.global_average_pool("mean", build.input)))
