import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparcl.errors import SparclError
from sparcl.graph import build_model
from sparcl.sparsity.layers import Layer, default_layers, sparse_layers
from sparcl.sparsity.masks import grow_randomly, random_mask, shrink, top_k


@given(st.integers(1, 300), st.data())
def test_best_against_brute_force(size, data):
    """Few different values, so that ties are common; among equals the lower place wins."""
    scores = np.array(data.draw(st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=size, max_size=size)))
    count = data.draw(st.integers(0, size))
    expected = sorted(sorted(range(size), key=lambda place: (-scores[place], place))[:count])
    assert top_k(scores, count).tolist() == expected


@given(st.integers(1, 400), st.floats(0, 0.99), st.floats(0, 0.3), st.integers(0, 999))
def test_counts_are_exact_and_growth_takes_unused_positions(size, sparsity, offset, seed):
    generator = np.random.default_rng(seed)
    layer = Layer("layer", size, sparsity)
    index = random_mask(size, layer.active(), generator)
    assert len(index) == size - round(size * sparsity)
    kept = shrink(index, generator.random(len(index)), layer.active(offset))
    assert len(kept) == min(len(index), layer.active(offset))
    assert np.isin(kept, index).all()
    grown = grow_randomly(kept, size, layer.active(), generator)
    assert len(grown) == layer.active()
    assert np.isin(kept, grown).all()
    assert (np.diff(grown) > 0).all() and (len(grown) == 0 or (grown[0] >= 0 and grown[-1] < size))


def test_the_layers_of_resnet18_and_their_share_of_the_work():
    graph = build_model("resnet18", (3, 32, 32), 10, 64)
    names = default_layers(graph)
    assert len(names) == 16
    masked = sum(graph.macs_of(graph[name]) for name in names)
    for sparsity, density in ((0.75, 0.261), (0.90, 0.113), (0.95, 0.064)):
        assert round(1 - sparsity * masked / graph.macs(), 3) == density


def test_layers_by_rule_and_by_name():
    graph = build_model("resnet18", (3, 16, 16), 10, 8)
    uniform = sparse_layers(graph, 0.9)
    erk = sparse_layers(graph, 0.9, "erk")
    total = sum(layer.size for layer in uniform)
    assert sum(layer.active() for layer in erk) == pytest.approx(0.1 * total, rel=0.01)
    assert len({round(layer.sparsity, 3) for layer in erk}) > 3
    (only,) = sparse_layers(graph, 0.9, names=["stage1.block1.conv1"], own_sparsity={"stage1.block1.conv1": 0.5})
    assert only == Layer("stage1.block1.conv1.weight", 8 * 8 * 9, 0.5)
    added = sparse_layers(graph, 0.9, own_sparsity={"stem.conv": 0.3})
    assert [layer.sparsity for layer in added if layer.name == "stem.conv.weight"] == [0.3]
    assert len(added) == len(uniform) + 1
    with pytest.raises(SparclError, match="no convolution called 'stage9'"):
        sparse_layers(graph, 0.9, names=["stage9"])
