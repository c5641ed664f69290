"""Every optimizer against torch.optim, and against a dense NumPy version where weights come, go and stand still."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sparcl import _engine
from sparcl.errors import SparclError
from sparcl.graph import build_model
from sparcl.network import AdamW, OptimizerSettings, Parameters, Sgd, make_optimizer
from sparcl.network.optimizer import bias_corrections
from sparcl.network.part_rates import part_rates

GRAPH = build_model("convnet", (2, 7, 6), 4, 3)
LAYER, OTHER = "conv2.weight", "conv3.weight"
RATE = 0.05
CHOICES = {
    "plain": ({}, 0.0),
    "decay": ({}, 0.02),
    "momentum": ({"momentum": 0.9}, 0.0),
    "momentum, decay": ({"momentum": 0.8}, 0.02),
    "nesterov": ({"momentum": 0.9, "nesterov": True}, 0.0),
    "nesterov, decay": ({"momentum": 0.7, "nesterov": True}, 0.02),
    "adamw": ({"name": "adamw"}, 0.0),
    "adamw, decay": ({"name": "adamw", "betas": (0.8, 0.99), "eps": 1e-4}, 0.1),
    "adamw without averages": ({"name": "adamw", "betas": (0.0, 0.0)}, 0.01),
}
REMEMBERS = [name for name in CHOICES if name not in ("plain", "decay")]


def made(choice, parameters):
    chosen, decay = CHOICES[choice]
    return make_optimizer(OptimizerSettings(**chosen), parameters, RATE, decay)


def in_torch(choice, groups):
    chosen, decay = CHOICES[choice]
    options = {key: value for key, value in chosen.items() if key != "name"}
    kind = torch.optim.AdamW if chosen.get("name") == "adamw" else torch.optim.SGD
    return kind(groups, lr=RATE, weight_decay=decay, **options)


class Dense:
    """All positions of one weight in float64, inactive ones zero; a step moves only the positions it is told."""

    def __init__(self, choice, values):
        chosen, self.decay = CHOICES[choice]
        self.chosen = OptimizerSettings(**chosen)
        self.values = values.astype(np.float64)
        self.slots = {name: np.zeros(len(values)) for name in ("velocity", "first_moment", "second_moment", "steps")}

    def keep(self, positions):
        """All others lose what they have."""
        gone = ~np.isin(np.arange(len(self.values)), positions)
        for array in (self.values, *self.slots.values()):
            array[gone] = 0.0

    def step(self, gradient, where, rate=RATE):
        values, g = self.values[where], gradient[where].astype(np.float64)
        if self.chosen.name == "adamw":
            m, v, t = (self.slots[name][where] for name in ("first_moment", "second_moment", "steps"))
            (beta1, beta2), t = self.chosen.betas, t + 1
            m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g**2
            change = (m / (1 - beta1**t)) / (np.sqrt(v / (1 - beta2**t)) + self.chosen.eps)
            self.values[where] = values * (1 - rate * self.decay) - rate * change
            counted = np.minimum(t, len(bias_corrections(self.chosen.betas)) - 1)  # no further than it matters
            for name, slot in (("first_moment", m), ("second_moment", v), ("steps", counted)):
                self.slots[name][where] = slot
        else:
            g = g + self.decay * values
            velocity = self.chosen.momentum * self.slots["velocity"][where] + g
            self.slots["velocity"][where] = velocity
            g = g + self.chosen.momentum * velocity if self.chosen.nesterov else velocity
            self.values[where] = values - rate * g


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("choice", CHOICES)
def test_many_steps_are_those_of_torch(choice, threads):
    """In float64 there, so what differs is our rounding to float32, which 300 steps hardly add up."""
    generator = np.random.default_rng(0)
    parameters = Parameters(build_model("convnet", (3, 8, 8), 10, 24))
    count = len(parameters.values.flat)
    assert count > 2 * 2**14  # more than one range of the kernel
    parameters.values.flat[...] = generator.normal(size=count)
    optimizer = made(choice, parameters)
    reference = torch.nn.Parameter(torch.from_numpy(parameters.values.flat.astype(np.float64)))
    theirs = in_torch(choice, [reference])
    _engine.set_threads(threads)
    for _ in range(300):
        gradient = (0.3 * reference.detach().numpy() + generator.normal(size=count)).astype(np.float32)
        parameters.gradients.flat[...] = gradient
        reference.grad = torch.from_numpy(gradient.astype(np.float64))
        optimizer.step()
        theirs.step()
        assert not parameters.gradients.flat.any()
    np.testing.assert_allclose(parameters.values.flat, reference.detach().numpy(), rtol=2e-6, atol=1e-5)


@pytest.mark.parametrize("choice", CHOICES)
def test_a_single_step_is_right_to_the_last_bits(choice):
    """From a state that float32 holds exactly, so that no rounding of earlier steps hides a wrong one."""
    generator = np.random.default_rng(1)
    parameters = Parameters(GRAPH)
    parameters.values.flat[...] = generator.normal(size=len(parameters.values.flat))
    optimizer = made(choice, parameters)
    for _ in range(40):
        parameters.gradients.flat[...] = generator.normal(size=len(parameters.values.flat))
        exact = Dense(choice, parameters.values.flat)
        for name, slot in parameters.slots.items():
            exact.slots[name][...] = slot.flat
        exact.step(parameters.gradients.flat.copy(), slice(None))
        optimizer.step()
        np.testing.assert_allclose(parameters.values.flat, exact.values, rtol=4e-7, atol=2e-7)
        for name, slot in parameters.slots.items():
            np.testing.assert_allclose(slot.flat, exact.slots[name], rtol=4e-7, atol=4e-7)


Event = st.one_of(
    st.tuples(st.just("step"), st.floats(0, 1)),  # that share of the active weights is updated
    st.tuples(st.just("move"), st.floats(0, 1)),  # to a random mask of that density
    st.tuples(st.just("grow"), st.floats(0, 0.3)),  # by that share
    st.tuples(st.just("train some"), st.floats(0, 1)),  # a step of that share of all numbers
)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(sorted(CHOICES)), st.integers(0, 9999), st.lists(Event, min_size=3, max_size=25))
def test_slots_move_with_the_masks(choice, seed, events):
    """Kept weights keep their slots, grown ones start at zero, and what a mask holds still does not move at all."""
    generator = np.random.default_rng(seed)
    parameters = Parameters(GRAPH)
    parameters.initialise(GRAPH, generator)
    size = parameters.values.specs[LAYER].size
    draw = lambda share: np.sort(generator.choice(size, round(share * size), replace=False)).astype(np.int32)  # noqa: E731
    parameters.set_index({LAYER: draw(0.4), OTHER: np.arange(0, 100, 3, dtype=np.int32)})
    optimizer = made(choice, parameters)
    dense = Dense(choice, parameters.values.dense(LAYER).ravel())
    beside = Dense(choice, parameters.values[OTHER])  # sparse as well, and never moved
    for event, share in events:
        index = parameters.index[LAYER]
        if event in ("move", "grow"):
            new = draw(share) if event == "move" else np.union1d(index, draw(share))
            parameters.set_index({LAYER: new})
            dense.keep(np.intersect1d(index, new))
            continue
        chosen, trainable = np.arange(len(index)), None
        if event == "step":
            chosen = np.sort(generator.choice(len(index), round(share * len(index)), replace=False))
            parameters.updated = {LAYER: chosen.astype(np.int32)}
        else:
            parameters.updated = {}
            trainable = generator.random(len(parameters.values.flat)) < share
            chosen = np.flatnonzero(trainable[parameters.values.slices[LAYER]])
        gradient = np.zeros(size)
        gradient[index[chosen]] = generator.normal(size=len(chosen))
        parameters.gradients[LAYER][...] = gradient[index]
        other = generator.normal(size=len(beside.values)).astype(np.float32)
        parameters.gradients[OTHER][...] = other
        before, slots = parameters.values[LAYER].copy(), {n: s[LAYER].copy() for n, s in parameters.slots.items()}
        optimizer.step(trainable)
        dense.step(gradient.astype(np.float32), index[chosen])
        beside.step(other, slice(None) if trainable is None else trainable[parameters.values.slices[OTHER]])
        still = np.ones(len(index), bool)
        still[chosen] = False
        np.testing.assert_array_equal(parameters.values[LAYER][still], before[still])
        for name, slot in slots.items():
            np.testing.assert_array_equal(parameters.slots[name][LAYER][still], slot[still])
    for reference, ours in ((dense, lambda store: store.dense(LAYER).ravel()), (beside, lambda store: store[OTHER])):
        np.testing.assert_allclose(ours(parameters.values), reference.values, rtol=1e-5, atol=1e-5)
        for name, slot in parameters.slots.items():
            np.testing.assert_allclose(ours(slot), reference.slots[name], rtol=1e-5, atol=1e-5)


def test_a_grown_weight_has_its_bias_corrected_as_in_a_first_step():
    """AdamW's first step has the size of the rate, whatever the gradient; so has the first of a weight grown later."""
    parameters = Parameters(GRAPH)
    parameters.set_index({LAYER: np.arange(0, 40, dtype=np.int32)})
    optimizer = AdamW(parameters, 0.01)
    generator = np.random.default_rng(0)
    for _ in range(500):
        parameters.gradients.flat[...] = generator.normal(size=len(parameters.gradients.flat))
        optimizer.step()
    parameters.set_index({LAYER: np.arange(0, 41, dtype=np.int32)})
    parameters.gradients[LAYER][...] = 0.03
    optimizer.step()
    assert parameters.values[LAYER][40] == pytest.approx(-0.01, rel=1e-5)
    assert parameters.slots["steps"][LAYER].tolist() == [501] * 40 + [1]


@pytest.mark.parametrize("choice", ["momentum, decay", "nesterov, decay", "adamw, decay"])
def test_parts_have_their_own_rates_as_torchs_parameter_groups(choice):
    generator = np.random.default_rng(0)
    parameters = Parameters(GRAPH)
    parameters.initialise(GRAPH, generator)
    rates = part_rates(GRAPH, {"conv1": 0.0, "bn2": 0.1, "conv3": 3.0})
    parameters.set_rates(rates)
    assert parameters.frozen == {"conv1.weight"}
    tensors = {name: torch.nn.Parameter(torch.from_numpy(parameters.values.dense(name))) for name in parameters.values}
    groups = [
        {"params": [tensor], "lr": RATE * rates.get(name, 1.0)}
        for name, tensor in tensors.items()
        if name not in parameters.frozen
    ]
    optimizer, theirs = made(choice, parameters), in_torch(choice, groups)
    before = parameters.values["conv1.weight"].copy()
    for _ in range(20):
        for name, tensor in tensors.items():
            gradient = generator.normal(size=tensor.shape).astype(np.float32)
            parameters.gradients[name][...] = gradient
            tensor.grad = torch.from_numpy(gradient)
        optimizer.step()
        theirs.step()
        assert not parameters.gradients.flat.any()
    for name, tensor in tensors.items():
        np.testing.assert_allclose(parameters.values[name], tensor.detach().numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(parameters.values["conv1.weight"], before)
    assert not any(slot["conv1.weight"].any() for slot in parameters.slots.values())


@pytest.mark.parametrize(
    ("rates", "told"),
    [
        ({"convv1": 0.0}, "rates names 'convv1'.*did you mean 'conv1'"),
        ({"conv": 0.0}, "no layer of the network is called so"),  # neither conv1 nor conv2 nor conv3 is inside of conv
        ({"relu1": 0.0}, "no layer of the network is called so"),  # it has nothing to train
        ({node.name: 0.0 for node in GRAPH if GRAPH.parameters_of(node)}, "freezes the whole network"),
    ],
)
def test_parts_that_make_no_sense_are_refused(rates, told):
    with pytest.raises(SparclError, match=told):
        part_rates(GRAPH, rates)


def test_the_smallest_part_counts_and_names_end_at_dots():
    graph = build_model("resnet18", (3, 8, 8), 4, 2)
    rates = part_rates(graph, {"stage1": 0.0, "stage1.block2": 0.5, "stage1.block2.bn1": 2.0})
    assert rates["stage1.block1.conv1.weight"] == 0.0
    assert rates["stage1.block2.conv1.weight"] == 0.5
    assert rates["stage1.block2.bn1.bias"] == 2.0
    assert not any(name.startswith(("stem", "stage2", "classifier")) for name in rates)


def test_corrections_are_torchs_until_float32_no_longer_tells_them_from_one():
    for betas in ((0.9, 0.999), (0.5, 0.0), (0.0, 0.0), (0.9, 0.9999)):
        table = bias_corrections(betas)
        steps = np.arange(1, len(table), max(1, len(table) // 100))
        np.testing.assert_allclose(table[steps, 0], 1 / (1 - betas[0] ** steps), rtol=1e-7)
        np.testing.assert_allclose(table[steps, 1], 1 / np.sqrt(1 - betas[1] ** steps), rtol=1e-7)
        assert (table[-1] == 1).all() and len(table) < 200_000


def test_steps_are_counted_no_further_than_they_matter_and_strange_counts_do_no_harm():
    table = bias_corrections((0.5, 0.5))
    steps = np.array([0, len(table) - 2, len(table) - 1, -7, 2**31 - 1], np.int32)
    arrays = [np.ones(5, np.float32) for _ in range(4)]
    _engine.adamw(*arrays, steps, None, table, 0.1, 0.5, 0.5, 1e-8, 0.0)
    assert steps.tolist() == [1, len(table) - 1, len(table) - 1, len(table) - 1, len(table) - 1]
    assert np.isfinite(arrays[0]).all()


@pytest.mark.parametrize("choice", REMEMBERS)
def test_states_go_on_exactly_and_wrong_ones_are_refused(choice):
    generator = np.random.default_rng(0)

    def parameters():
        one = Parameters(GRAPH)
        one.set_index({LAYER: np.arange(0, 60, 2, dtype=np.int32)})
        return one

    first = parameters()
    optimizer = made(choice, first)
    assert optimizer.state() == {}
    gradients = generator.normal(size=(6, len(first.values.flat))).astype(np.float32)
    second = parameters()
    for number, gradient in enumerate(gradients):
        if number == 3:
            state = {name: array.copy() for name, array in optimizer.state().items()}
            second.values.flat[...] = first.values.flat
            other = made(choice, second)
            other.restore(state)
        first.gradients.flat[...] = gradient
        optimizer.step()
        if number >= 3:
            second.gradients.flat[...] = gradient
            other.step()
    np.testing.assert_array_equal(first.values.flat, second.values.flat)
    for name in state:
        for wrong in (state[name][:-1], state[name].astype(np.float64), np.full_like(state[name], -1)):
            if name in ("velocity", "first_moment") and len(wrong) == len(state[name]) and wrong.dtype == np.float32:
                continue  # these may be negative
            with pytest.raises(ValueError, match="optimizer"):
                other.restore({**state, name: wrong})
        with pytest.raises(ValueError, match="optimizer"):
            other.restore({key: value for key, value in state.items() if key != name} | {"unknown": state[name]})
        if state[name].dtype == np.float32:
            with pytest.raises(ValueError, match="optimizer"):
                other.restore({**state, name: np.full_like(state[name], np.nan)})


def test_plain_descent_remembers_nothing():
    parameters = Parameters(GRAPH)
    AdamW(parameters, 0.1).step()
    assert len(parameters.slots) == 3
    plain = Sgd(parameters, 0.1)
    plain.step()
    assert not parameters.slots and plain.state() == {}
    assert parameters.copy().slots == {}
    with pytest.raises(ValueError, match="another one"):
        plain.restore({"velocity": np.zeros(3, np.float32)})
