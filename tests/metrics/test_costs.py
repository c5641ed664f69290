"""Costs: against the paper's numbers, torch's own counter, a count by brute force, and a run counted step by step."""

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from sparcl.cli.cost import network_cost
from sparcl.graph import build_model
from sparcl.metrics.costs import PHASES, CostCounter
from sparcl.metrics.schedule import SparsePlan, TrainingPlan, capped_importance_batches, count_plan
from sparcl.network.part_rates import frozen_parameters
from sparcl.sparsity.ddr import RemovalSchedule

CIFAR10_GRAPH = build_model("resnet18", (3, 32, 32), 10, 64)
CIFAR10 = network_cost(CIFAR10_GRAPH)
TINY = network_cost(build_model("resnet18", (3, 64, 64), 200, 64))
SMALL_GRAPH = build_model("resnet18", (2, 8, 8), 3, 2)
SMALL = network_cost(SMALL_GRAPH)

PAPER = TrainingPlan(samples=(10_000,) * 5, epochs=50, batch=32, replay_batch=32)
SPARCL = replace(PAPER, replay_passes=2, sparse=SparsePlan(adjusts_mask=True, removal=RemovalSchedule(0.3, 4)))
GRADIENT_SPARSITY = [(0.75, 0.05), (0.90, 0.02), (0.95, 0.02)]


def test_the_masked_layers_of_resnet18_are_the_3x3_convolutions_of_the_blocks():
    masked = [layer.name for layer in CIFAR10.layers if layer.masked]
    assert len(masked) == 16
    assert all(".block" in name and "shortcut" not in name for name in masked)
    dense = sum(layer.macs for layer in CIFAR10.layers if not layer.masked)
    assert dense / CIFAR10.macs == pytest.approx(0.0145, abs=5e-5)


def test_the_first_convolution_of_any_network_stays_dense():
    layers = network_cost(build_model("convnet", (1, 8, 8), 10, 4)).layers
    assert [layer.masked for layer in layers] == [False, True, True, True, False]


@pytest.mark.parametrize(("sparsity", "density"), [(0, 1), (0.75, 0.261), (0.90, 0.113), (0.95, 0.064)])
def test_densities(sparsity, density):
    assert round(CIFAR10.density(sparsity), 3) == density
    assert round(TINY.density(sparsity), 3) == density


@pytest.mark.parametrize(
    ("sparsity", "gradient_sparsity", "megabytes"),
    [(0, 0, 246.7), (0.75, 0, 179.6), (0.75, 0.05, 177.4), (0.90, 0, 166.2), (0.90, 0.02, 165.3)],
)
def test_memory_by_the_papers_formula(sparsity, gradient_sparsity, megabytes):
    assert round(CIFAR10.memory_bytes(32, sparsity, gradient_sparsity) / 1e6, 1) == megabytes


@pytest.mark.parametrize(("replay_passes", "cifar10", "tiny"), [(0, 8.3, 13.3), (1, 11.1, 17.8), (2, 13.9, 22.2)])
def test_dense_flops_of_the_paper(replay_passes, cifar10, tiny):
    """EWC, ER, DER++."""
    plan = replace(PAPER, replay_passes=replay_passes)
    assert round(count_plan(CIFAR10, plan).total("paper") / 1e15, 1) == cifar10
    plan = replace(plan, samples=(10_000,) * 10, epochs=100)
    assert round(count_plan(TINY, plan).total("paper") / 1e16, 1) == tiny


@pytest.mark.parametrize(("replay_passes", "forwards"), [(0, 3), (1, 6), (2, 9)])
def test_the_full_convention_counts_every_backward(replay_passes, forwards):
    plan = replace(PAPER, samples=(9_600,) * 5, replay_passes=replay_passes)  # no partial batches
    samples = 9_600 * 5 * 50 - 32 * replay_passes / (1 + replay_passes)  # the first replays none
    assert count_plan(CIFAR10, plan).total("full") == pytest.approx(forwards * 2 * CIFAR10.macs * samples, rel=1e-12)


@pytest.mark.parametrize("shape", [(3, 8, 8), (1, 9, 13)])
def test_a_dense_pass_costs_what_torch_counts(shape):
    """Torch does not compute the gradient of the images; the usual 3F, which is counted here, includes it."""
    graph = build_model("resnet18", shape, 7, 4)
    counter = CostCounter(network_cost(graph))
    counter.count_pass(2, {}, {})
    images = torch.zeros(2, *shape)
    weights = {spec.name: torch.zeros(spec.shape, requires_grad=True) for spec in graph.parameters()}
    with FlopCounterMode(display=False) as torch_counter:
        _convolve(graph, weights, images).sum().backward()
    stem = 2 * 2 * graph.macs_of(graph["stem.conv"])
    assert torch_counter.get_total_flops() == counter.total("full") - stem


@pytest.mark.parametrize(
    ("parts", "first"),
    [
        (["stage2"], ["stem.conv"]),
        (["stem", "stage1"], ["stage2.block1.conv1", "stage2.block1.shortcut.conv"]),
        (["stem", "stage1", "stage2", "stage3.block1.conv2"], ["stage3.block1.conv1", "stage3.block1.shortcut.conv"]),
        (["stem", "stage1", "stage2", "stage3", "stage4"], ["classifier"]),
        (["classifier"], ["stem.conv"]),
    ],
)
def test_frozen_parts_cost_what_torch_counts(parts, first):
    """But for the gradient of what goes into the first trained layers, as with the images above."""
    graph = build_model("resnet18", (3, 8, 8), 7, 4)
    frozen = frozen_parameters(graph, dict.fromkeys(parts, 0.0))
    counter = CostCounter(network_cost(graph, frozen))
    counter.count_pass(2, {}, {})
    weights = {spec.name: torch.zeros(spec.shape, requires_grad=spec.name not in frozen) for spec in graph.parameters()}
    with FlopCounterMode(display=False) as torch_counter:
        _convolve(graph, weights, torch.zeros(2, 3, 8, 8)).sum().backward()
    not_needed = sum(2 * 2 * graph.macs_of(graph[name]) for name in first)
    assert torch_counter.get_total_flops() == counter.total("full") - not_needed
    again = CostCounter(counter.network)
    again.count_importance_pass(2, {})
    again.count_extra_pass(2, {}, backward=True)
    assert again.total("full") == 2 * counter.total("full")


def test_memory_of_slots_and_of_frozen_parts():
    dense, sparse = CIFAR10.memory_bytes(32), CIFAR10.memory_bytes(32, 0.9)
    assert CIFAR10.memory_bytes(32, slots=3) - dense == pytest.approx(4 * 3 * CIFAR10.parameters)
    assert CIFAR10.memory_bytes(32, 0.9, slots=1) - sparse == pytest.approx(4 * 0.1 * CIFAR10.parameters)
    lower = ["stem", "stage1", "stage2"]
    half = network_cost(CIFAR10_GRAPH, frozen_parameters(CIFAR10_GRAPH, dict.fromkeys(lower, 0.0)))
    upper = [node for node in CIFAR10_GRAPH if node.name.startswith(("stage3", "stage4", "classifier"))]
    trained = sum(spec.size for node in upper for spec in CIFAR10_GRAPH.parameters_of(node))
    kept = sum(math.prod(node.shape) for node in upper if node.op.name == "conv")
    assert half.memory_bytes(32, slots=2) == 4 * (2 * 32 * kept + CIFAR10.parameters + 3 * trained)


def _convolve(graph, weights, images):
    """The layers that count, with the shapes of the graph; what lies between them costs nothing."""
    outputs = {}
    for node in graph:
        sources = [outputs[name] for name in node.inputs]
        match node.op.name:
            case "input":
                outputs[node.name] = images
            case "conv":
                weight = weights[f"{node.name}.weight"]
                outputs[node.name] = torch.conv2d(sources[0], weight, stride=node.op.stride, padding=node.op.padding)
            case "linear":
                outputs[node.name] = sources[0] @ weights[f"{node.name}.weight"].T
            case "global_average_pool":
                outputs[node.name] = sources[0].mean(dim=(2, 3))
            case _:
                outputs[node.name] = sum(sources)
    return outputs[graph.nodes[-1].name]


def test_a_sparse_pass_by_brute_force():
    """Every multiplication and addition of three samples, one by one, with random masks."""
    random = np.random.default_rng(0)
    samples = 3
    counter = CostCounter(SMALL)
    active_masks, updated_masks = {}, {}
    for layer in SMALL.layers:
        if layer.masked:
            active_masks[layer.name] = random.random(layer.weights) < 0.4
            updated_masks[layer.name] = active_masks[layer.name] & (random.random(layer.weights) < 0.7)
    active = {name: int(mask.sum()) for name, mask in active_masks.items()}
    updated = {name: int(mask.sum()) for name, mask in updated_masks.items()}
    counter.count_pass(samples, active, updated)
    counter.count_pass(samples, active, updated, replay=True, refresh=True)
    counter.count_importance_pass(samples, active)

    expected = dict.fromkeys(PHASES, 0)
    for node in SMALL_GRAPH:
        if node.op.name not in ("conv", "linear"):
            continue
        weight = SMALL_GRAPH.parameters_of(node)[0]
        every = np.ones(weight.size, bool)
        is_active, is_updated = active_masks.get(weight.name, every), updated_masks.get(weight.name, every)
        for _ in itertools.product(range(samples), range(math.prod(node.shape[1:]))):
            for used, changed in zip(is_active.tolist(), is_updated.tolist(), strict=True):
                for prefix in ("", "replay_"):
                    expected[prefix + "forward"] += 2 * used
                    expected[prefix + "backward_data"] += 2 * used
                    expected[prefix + "backward_weight"] += 2 * changed
                expected["refresh"] += 2 * (used and not changed)
                expected["importance"] += 6 * used
    assert counter.by_phase("full") == expected
    assert counter.total("paper") == sum(expected[phase] for phase in PHASES[:4])


plans = st.builds(
    TrainingPlan,
    samples=st.lists(st.integers(1, 150), min_size=1, max_size=3).map(tuple),
    epochs=st.integers(1, 7),
    batch=st.integers(1, 20),
    replay_batch=st.integers(1, 20),
    current_passes=st.integers(1, 2),
    replay_passes=st.integers(0, 2),
    sparse=st.builds(
        SparsePlan,
        sparsity=st.sampled_from([0.0, 0.005, 0.5, 0.9]),
        adjusts_mask=st.booleans(),
        importance_batches=st.integers(0, 4),
        gradient_sparsity=st.sampled_from([0.0, 0.02, 0.1]),
        gradient_interval=st.integers(1, 40),
        removal=st.none() | st.builds(RemovalSchedule, st.floats(0, 1), st.integers(1, 4), st.booleans()),
        stage_epochs=st.integers(1, 3),
    ),
)


def sparser(plan, **changes):
    return replace(plan, sparse=replace(plan.sparse, **changes))


@settings(deadline=None, max_examples=60)
@given(plans)
def test_a_plan_costs_what_its_steps_cost_one_by_one(plan):
    assert count_plan(SMALL, plan).flops == _run(plan).flops


def _run(plan):
    """The loop of a training, written independently of the plan's stages: one step after another."""
    counter, sparse = CostCounter(SMALL), plan.sparse
    steps_done = since_choice = 0
    for task, task_samples in enumerate(plan.samples):
        samples, sparsity = task_samples, sparse.sparsity
        if sparse.adjusts_mask:
            since_choice = 0
            if task > 0:
                sparsity = max(0.0, sparse.sparsity - sparse.growth)
        stage_samples = 0
        for epoch in range(plan.epochs):
            active, updated = SMALL.kept(sparsity), SMALL.kept(sparsity + sparse.gradient_sparsity)
            sizes = [min(plan.batch, samples - start) for start in range(0, samples, plan.batch)]
            if len(sizes) > 1 and sizes[-1] == 1 and plan.batch > 1:
                sizes[-2:] = [plan.batch + 1]  # a lone last sample joins the batch before it
            for size in sizes:
                refresh = since_choice % sparse.gradient_interval == 0
                for _ in range(plan.current_passes):
                    counter.count_pass(size, active, updated, refresh=refresh)
                    stage_samples += size
                in_buffer = steps_done * plan.batch
                for _ in range(plan.replay_passes):
                    replayed = min(plan.replay_batch, in_buffer)
                    counter.count_pass(replayed, active, updated, replay=True, refresh=refresh)
                    stage_samples += replayed
                steps_done += 1
                since_choice += 1
            finished = epoch + 1
            if finished % sparse.stage_epochs and finished != plan.epochs:
                continue
            stage = -(-finished // sparse.stage_epochs)
            last, first_of_later_task = finished == plan.epochs, task > 0 and stage == 1
            if sparse.adjusts_mask and (not last or first_of_later_task):
                terms = 2 if plan.replay_passes else 1
                passes = stage_samples // plan.batch
                for _ in range(capped_importance_batches(sparse.importance_batches, passes, terms)):
                    counter.count_importance_pass(min(plan.batch, samples), active)
                    if plan.replay_passes:
                        counter.count_importance_pass(plan.replay_batch, active)
                sparsity, since_choice = sparse.sparsity, 0
            if sparse.removal:
                samples = sparse.removal.remaining(task_samples, stage)
            stage_samples = 0
    return counter


@given(plans, st.floats(0, 0.7), st.floats(0, 0.1))
@settings(deadline=None, max_examples=60)
def test_more_sparsity_never_costs_more(plan, sparsity, more):
    dense, sparse = (count_plan(SMALL, sparser(plan, sparsity=share)) for share in (sparsity, sparsity + more))
    assert sparse.total("paper") <= dense.total("paper")
    assert sparse.total("full") <= dense.total("full")


@given(plans)
@settings(deadline=None, max_examples=60)
def test_the_paper_counts_a_part_of_what_runs(plan):
    counter = count_plan(SMALL, plan)
    assert counter.total("paper") <= counter.total("full")
    for convention in ("paper", "full"):
        assert sum(counter.by_phase(convention).values()) == counter.total(convention)
        assert sum(counter.by_layer(convention).values()) == counter.total(convention)


@given(st.integers(1, 50), st.sampled_from([5, 10, 2]))
def test_removing_three_tenths_in_four_stages_of_ten_leaves_775_of_1000(forties, stage_epochs):
    """Exact where the samples divide evenly and nothing is replayed."""
    everything = TrainingPlan(
        samples=(40 * forties,) * 2,
        epochs=10 * stage_epochs,
        batch=32,
        sparse=SparsePlan(sparsity=0.9, stage_epochs=stage_epochs),
    )
    removing = sparser(everything, removal=RemovalSchedule(0.3, 4))
    flops, fewer = (count_plan(SMALL, plan).total("paper") for plan in (everything, removing))
    assert 1000 * fewer == 775 * flops


def test_removal_at_once_presents_more_than_removal_in_parts():
    removal = RemovalSchedule(0.3, 4)
    assert [removal.remaining(10_000, stage) for stage in range(6)] == [10_000, 9_250, 8_500, 7_750, 7_000, 7_000]
    at_once = replace(removal, one_shot=True)
    assert [at_once.remaining(10_000, stage) for stage in range(6)] == [10_000] * 4 + [7_000] * 2


@pytest.mark.parametrize(("sparsity", "gradient_sparsity"), GRADIENT_SPARSITY)
def test_gradient_masking_costs_less_than_it_saves(sparsity, gradient_sparsity):
    """Refreshes, and 20 operations for each active weight at each of them to choose which ones are updated."""
    without = count_plan(CIFAR10, sparser(SPARCL, sparsity=sparsity))
    plan = sparser(SPARCL, sparsity=sparsity, gradient_sparsity=gradient_sparsity)
    masked = count_plan(CIFAR10, plan)
    refreshes = sum(stage.repeats * len(stage.refresh_steps()) for stage in plan.stages())
    choosing = 20 * refreshes * sum(CIFAR10.kept(sparsity - plan.sparse.growth).values())
    cost = masked.by_phase("full")["refresh"] + choosing
    saved = without.total("full") - (masked.total("full") - masked.by_phase("full")["refresh"])
    assert 0 < cost < 0.05 * saved


@pytest.mark.parametrize(("sparsity", "gradient_sparsity"), GRADIENT_SPARSITY)
def test_deciding_about_weights_costs_at_most_one_percent(sparsity, gradient_sparsity):
    plan = sparser(SPARCL, sparsity=sparsity, gradient_sparsity=gradient_sparsity)
    counter = count_plan(CIFAR10, plan)
    assert 0 < counter.by_phase("full")["importance"] < 0.01 * counter.total("full")
    assert {stage.importance_batches() for stage in plan.stages()} == {
        0,
        16,
    }  # the cap does not bite in the paper's protocol


def test_the_papers_convention_takes_the_nominal_sparsity():
    plan = sparser(SPARCL, sparsity=0.9)
    nominal, exact = count_plan(CIFAR10, plan.nominal()), count_plan(CIFAR10, plan)
    assert nominal.total("paper") == count_plan(CIFAR10, sparser(plan, adjusts_mask=False)).total("paper")
    assert 1 < exact.total("paper") / nominal.total("paper") < 1.01


def test_a_counter_survives_a_checkpoint_exactly():
    counter = count_plan(CIFAR10, sparser(SPARCL, sparsity=0.95, gradient_sparsity=0.02))
    again = CostCounter(CIFAR10)
    again.restore(json.loads(json.dumps(counter.to_json())))
    assert again.flops == counter.flops
    again.count_pass(1, {}, {})
    assert again.total("full") == counter.total("full") + 3 * 2 * CIFAR10.macs  # nothing is lost beside 1e16


def test_the_counts_of_another_network_are_refused():
    with pytest.raises(ValueError, match="another network"):
        CostCounter(SMALL).restore(CostCounter(network_cost(build_model("convnet", (1, 8, 8), 3, 2))).to_json())


def test_a_plan_that_masks_more_than_everything_is_refused():
    with pytest.raises(ValueError, match="exceed 1"):
        sparser(PAPER, sparsity=0.99, gradient_sparsity=0.02)
