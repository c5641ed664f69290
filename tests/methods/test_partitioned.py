"""PackNet and LPS: what a task has learned stays, bit for bit; LPS's ADMM keeps its promises."""

from functools import partial
from itertools import combinations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from reference import gradient

from sparcl.errors import SparclError
from sparcl.methods.partitioned import FREE


def single_head(logits, labels):
    return F.cross_entropy(logits[:, 2:4], labels)


@pytest.mark.parametrize("backend", ["torch", "native"])
@pytest.mark.parametrize("name", ["packnet", "lps"])
def test_later_tasks_change_nothing_of_earlier_ones(bench, name, backend):
    table = bench(name, backend=backend, tasks=3, weight_decay=1e-3, learning_rate=0.1)
    method = table.method
    remembered = {}
    for index in range(3):
        task = table.task(index)
        table.learn(task, steps=10)
        images = table.augmentation.test(task.test.images, task.test.positions)
        trained = method.network.predict(images)[:, task.classes.start : task.classes.stop]
        remembered[index] = method.predict(images, task)
        shown = remembered[index][:, task.classes.start : task.classes.stop]
        np.testing.assert_allclose(shown, trained, rtol=1e-5, atol=1e-6)  # what is kept is what was learned
        for earlier in range(index + 1):
            task = table.task(earlier)
            images = table.augmentation.test(task.test.images, task.test.positions)
            np.testing.assert_array_equal(method.predict(images, task), remembered[earlier])
    assert not np.array_equal(remembered[0][:5], remembered[1][:5])


@pytest.mark.parametrize("name", ["packnet", "lps"])
def test_every_weight_has_at_most_one_owner_for_good(bench, name):
    table = bench(name, tasks=3)
    method = table.method
    before = method.owner.flat.copy()
    for index in range(3):
        table.learn(table.task(index))
        owner = method.owner.flat.copy()
        assert (owner[before != FREE] == before[before != FREE]).all()
        for layer in method.divided:
            block = method.owner[layer]
            assert (block == index).sum() == method.shares(block.size)[index]
            sleeping = method.network.parameters.values[layer][block == FREE]
            np.testing.assert_array_equal(sleeping, 0)
        before = owner
    assert (before[method.dividable] != FREE).all()  # the last task takes what is left


@pytest.mark.parametrize("size", [7, 36, 1000])
def test_shares_are_the_whole_layer(bench, size):
    packnet, lps = bench("packnet", tasks=5, width=8).method, bench("lps", tasks=5, width=8).method
    assert sum(packnet.shares(size)) == sum(lps.shares(size)) == size
    assert packnet.shares(1000) == [500, 125, 125, 125, 125]
    assert lps.shares(1000) == [200] * 5


@pytest.mark.parametrize("name", ["packnet", "lps"])
def test_too_many_tasks_are_refused_before_anything_is_learned(bench, name):
    expected = r"no weights left for task \d+ of 100: conv1\.weight has 72 in all"
    with pytest.raises(SparclError, match=expected) as caught:
        bench(name, tasks=100)
    assert "\n" not in str(caught.value)


def test_packnet_keeps_the_largest_weights_and_retrains_only_them(bench):
    table = bench("packnet", tasks=2)
    method, task = table.method, table.task(0)
    method.begin_task(task)
    method.step(table.batch_of(task, 0, progress=0.69))
    assert not method.pruned
    sizes = np.abs(method.network.parameters.values["conv2.weight"]).ravel().copy()
    method.step(table.batch_of(task, 1, progress=0.7))
    assert method.pruned
    kept = (method.owner["conv2.weight"] == 0).ravel()
    assert sizes[kept].min() >= sizes[~kept].max()
    assert kept.sum() == len(kept) // 2


@pytest.mark.parametrize("name", ["packnet", "lps"])
def test_a_step_descends_on_the_single_head_loss(bench, name):
    table = bench(name, tasks=2)
    method, task = table.method, table.task(1)
    table.learn(table.task(0))
    method.begin_task(task)
    method.step(table.batch_of(task, 0, progress=0.8))  # pruned: nothing but the loss is left
    batch = table.batch_of(task, 1, progress=0.9)
    values = method.network.parameters.values.flat
    before = values.copy()
    labels = torch.from_numpy(batch.labels) - 2
    g = gradient(method.network, [(batch.images, lambda z: F.cross_entropy(z[:, 2:4], labels))])
    method.step(batch)
    expected = before - 0.03 * g * method.trainable()
    np.testing.assert_allclose(values[method.trainable()], expected[method.trainable()], rtol=1e-4, atol=1e-6)
    earlier_head = (method.owner.flat == 0) & ~method.dividable
    np.testing.assert_array_equal(values[earlier_head], before[earlier_head])


def test_lps_projects_to_the_nearest_weights_of_its_share(bench):
    """Brute force: of all ways to keep two of a handful of free weights, none is nearer."""
    table = bench("lps", tasks=2)
    method = table.method
    weights = np.random.default_rng(0).normal(size=len(method.stored)).astype(np.float32)
    free = np.array([3, 8, 20, 31, 40])
    where = method.owner.slices["conv1.weight"]
    method.owner.flat[where] = 0
    method.owner.flat[where.start + free] = FREE
    method.share_of = lambda name: 2 if name == "conv1.weight" else 1
    found = method.projected(weights)[where]
    candidates = weights[where][free]
    ways = [sum(candidates[[i for i in range(5) if i not in kept]] ** 2) for kept in combinations(range(5), 2)]
    assert np.count_nonzero(found) == 2
    assert ((found[free] - candidates) ** 2).sum() == pytest.approx(min(ways), rel=1e-6)


def test_the_residual_of_admm_falls_and_the_prune_is_exact(bench):
    table = bench("lps", tasks=2, rho=5.0)
    method, task = table.method, table.task(0)
    method.begin_task(task)
    residuals = [method.residual()]
    for number in range(200):
        method.step(table.batch_of(task, number, progress=0.65 * number / 200))
        residuals.append(method.residual())
    assert method.iteration == method.iterations
    assert residuals[-1] < 0.3 * residuals[0]
    method.step(table.batch_of(task, 0, progress=0.7))
    for layer in method.divided:
        values = method.network.parameters.values[layer]
        assert np.count_nonzero(values) <= method.shares(values.size)[0]
        assert (method.owner[layer] == 0).sum() == method.shares(values.size)[0]


def test_selection_is_binary_and_learned_by_the_straight_through_gradient(bench):
    table = bench("lps", tasks=2, learning_rate=0.2)
    method = table.method
    table.learn(table.task(0))
    task = table.task(1)
    method.begin_task(task)
    values = method.network.parameters.values.flat
    assert method.selection().all()  # at first everything is used
    for number in range(60):
        batch = table.batch_of(task, number, progress=number / 60)
        scores = method.scores.copy()
        used = np.where(scores > method.threshold, method.stored[method.shared], 0)
        np.testing.assert_array_equal(values[method.shared], used)  # zero, or what the earlier task had
        loss = partial(single_head, labels=torch.from_numpy(batch.labels) - 2)
        g = gradient(method.network, [(batch.images, loss)])[method.shared]
        method.step(batch)
        if number != 42:  # the step that prunes sees other weights than the reference
            np.testing.assert_allclose(method.scores, scores - 0.2 * g * method.units, rtol=1e-3, atol=1e-6)
    method.end_task(task)
    assert method.selected[1].dtype == bool
    assert 0 < method.selected[1].sum() < len(method.selected[1])
