import json
from typing import get_args

from sparcl.generators import Generators, Purpose


def test_each_purpose_draws_its_own_numbers():
    generators = Generators(0)
    draws = {purpose: generators[purpose].integers(1 << 60) for purpose in get_args(Purpose)}
    assert len(set(draws.values())) == len(draws)


def test_one_purpose_does_not_disturb_another():
    quiet, busy = Generators(1), Generators(1)
    busy["replay"].random(1000)
    assert quiet["order"].random() == busy["order"].random()


def test_state_goes_through_json_and_continues_exactly():
    generators = Generators(2)
    generators["order"].random(17)
    state = json.loads(json.dumps(generators.state()))
    expected = generators["order"].random(5).tolist()
    again = Generators(3)
    again.restore(state)
    assert again["order"].random(5).tolist() == expected
