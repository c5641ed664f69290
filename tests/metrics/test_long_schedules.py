"""A plan of any length is counted at once. (That the count is right: test_costs.py.)"""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from sparcl.learning.epoch_steps import EpochSteps
from sparcl.metrics.costs import LayerCost, NetworkCost
from sparcl.metrics.schedule import SparsePlan, TrainingPlan, count_plan
from sparcl.metrics.stretches import stretches
from sparcl.sparsity.ddr import RemovalSchedule

NETWORK = NetworkCost((LayerCost("masked", 100, 7, True), LayerCost("dense", 31, 3, False)), 131, 50)
PLANS = st.builds(
    TrainingPlan,
    samples=st.lists(st.integers(1, 70), min_size=1, max_size=3).map(tuple),
    epochs=st.integers(1, 14),
    batch=st.integers(1, 20),
    replay_batch=st.integers(0, 60),
    replay_passes=st.integers(0, 2),
    replay_from_task=st.integers(1, 2),
    old_network_passes=st.integers(0, 1),
    drop_last=st.booleans(),
    sparse=st.builds(
        SparsePlan,
        sparsity=st.just(0.5),
        adjusts_mask=st.booleans(),
        grows=st.sampled_from(["for_tasks", "in_stages"]),
        growth=st.just(0.1),
        gradient_sparsity=st.just(0.2),
        gradient_interval=st.integers(1, 12),
        removal=st.none() | st.builds(RemovalSchedule, st.sampled_from([0.3, 0.9]), st.integers(1, 4), st.booleans()),
        stage_epochs=st.integers(1, 4),
    ),
)


@given(PLANS)
def test_a_plan_of_a_trillion_epochs_is_counted_at_once(plan):
    """What a run adds with more epochs is what each of them adds, as soon as the first ones are over."""
    period = plan.sparse.stage_epochs * plan.sparse.gradient_interval  # after which masks and choices come round again
    start = 70 * period  # by then nothing is removed any more, and the buffer holds a whole batch

    def flops(epochs):
        return count_plan(NETWORK, replace(plan, samples=plan.samples[:1], epochs=epochs)).flops

    once, twice, many = flops(start), flops(start + period), flops(start + 10**12 * period)
    for phase in once:
        for first, second, last in zip(once[phase], twice[phase], many[phase], strict=True):
            assert last == first + 10**12 * (second - first)


@given(st.lists(st.integers(0, 5)).map(lambda values: sorted(values, reverse=True)))
def test_stretches_are_cut_where_the_value_changes(values):
    found = list(stretches(len(values), values.__getitem__))
    assert [values[place] for same in found for place in same] == values
    assert len(found) == len(set(values))


@given(st.lists(st.integers(1, 5), min_size=1).map(lambda values: sorted(values, reverse=True)))
def test_steps_before_an_epoch_are_the_sum_of_those_before(values):
    plan = EpochSteps(len(values), values.__getitem__)
    assert [plan.before(epoch) for epoch in range(len(values) + 1)] == [sum(values[:n]) for n in range(len(values) + 1)]
