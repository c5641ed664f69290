"""SparCL's schedule, counts, importance, removed samples and gradient masks, on a recorded 3-task run."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from driven_loop import BATCH, SAMPLES, Stage, dense_copy

from sparcl.errors import SparclError
from sparcl.methods import METHODS, Rehearsal, cross_entropy
from sparcl.sparsity.sparcl import gradient_share


@pytest.mark.parametrize("sparsity", [0.5, 0.75, 0.9, 0.95])
@pytest.mark.parametrize("method", ["sgd", "er", "der", "derpp"])
def test_the_schedule_of_active_weights_is_exactly_the_papers(sparsity, method):
    """Recorded after each task's start and each stage's end, in every layer."""
    trace = []
    stage = Stage("sparcl", sparsity, method)
    stage.run(on_epoch=lambda stage, task, epoch: trace.append((task.index, epoch, stage.active())))
    sizes = {layer.name: layer.size for layer in stage.sparsifier.sparse_layers}
    for task, epoch, active in trace:
        expanded = task > 0 and epoch == -1  # until the first stage ends
        for name, size in sizes.items():
            assert active[name] == size - round(size * (sparsity - (0.01 if expanded else 0.0)))


def adjustments(stage):
    """What happened, in order, as (layer counts removed, grown)."""
    return [record for record in stage.records if "adjustment" in record]


def test_each_adjustment_does_what_the_paper_says():
    stage = Stage("sparcl", 0.75).run()
    kinds = [record["adjustment"] for record in adjustments(stage)]
    inner = ["shrink and expand"] * 3  # at the end of every stage but the last of four
    assert kinds == [*inner, "expand", *inner, "expand", *inner]
    sizes = {layer.name: layer.size for layer in stage.sparsifier.sparse_layers}
    for number, record in enumerate(adjustments(stage)):
        for name, layer in record["layers"].items():
            to_s, to_shrunk, to_expanded = (sizes[name] - round(sizes[name] * s) for s in (0.75, 0.755, 0.74))
            if record["adjustment"] == "expand":
                assert (layer["removed"], layer["grown"]) == (0, to_expanded - to_s)
            else:
                before = to_expanded if kinds[number - 1] == "expand" and number else to_s
                assert (layer["removed"], layer["grown"]) == (before - to_shrunk, to_s - to_shrunk)
            ages = layer["survivors_by_age"]
            assert sum(ages.values()) == layer["active"] and ages.get("0", 0) == layer["grown"]
            assert max(map(int, ages)) == number + 1  # of what is there from the start


def test_what_is_removed_and_grown_again_starts_from_zero():
    """With so large a p_intra most of the removed weights return at once."""
    stage = Stage("sparcl", 0.1, p_intra=0.85, dgm=False)

    def look(stage, task, epoch):
        if epoch != 0:
            return
        for name, layer in adjustments(stage)[-1]["layers"].items():
            assert (stage.network.parameters.values[name] == 0).sum() == layer["grown"] > layer["active"] // 2

    stage.run(tasks=1, on_epoch=look)


def test_what_is_grown_again_has_no_penalty():
    """EWC keeps something about every weight: of those that were removed meanwhile nothing."""
    stage = Stage("sparcl", 0.1, method="ewc", p_intra=0.85, dgm=False)

    def look(stage, task, epoch):
        if (task.index, epoch) != (1, 0):
            return
        stage.method.align()
        for name in stage.active():
            grown = stage.network.parameters.values[name] == 0
            assert grown.sum() > len(grown) // 2 and not stage.method.fisher[name][grown].any()
            assert stage.method.fisher[name][~grown].any()

    stage.run(tasks=2, on_epoch=look)


def test_a_dense_layer_among_sparse_ones_is_left_alone():
    stage = Stage("sparcl", 0.75, layer_sparsity={"conv2": 0.0}, dgm=False).run(tasks=1)
    assert all(record["layers"]["conv2.weight"]["removed"] == 0 for record in adjustments(stage))
    assert (stage.network.parameters.values["conv2.weight"] != 0).all()


@pytest.mark.parametrize("options", [{"schedule": "epoch_start"}, {"gradient_average": 0.5}])
def test_the_state_fits_the_weights_after_every_change_of_the_masks(options):
    """A checkpoint may be written at any of these moments."""
    checked = []

    def save_and_restore(stage, task, epoch):
        state = {name: array.copy() for name, array in stage.sparsifier.state().items()}
        stage.sparsifier.restore(state)
        checked.append(epoch)

    Stage("sparcl", 0.75, **options).run(on_epoch=save_and_restore)
    assert checked == [-1, 0, 1, 2, 3] * 3


def test_a_last_stage_that_time_cut_short_takes_its_growth_back():
    stage = Stage("sparcl", 0.75, schedule="epoch_start")
    stage.run(tasks=1, on_epoch=lambda stage, task, epoch: setattr(stage, "epochs", 1))
    for layer in stage.sparsifier.sparse_layers:
        assert stage.active()[layer.name] == layer.active()


def test_a_single_stage_only_shrinks_back():
    stage = Stage("sparcl", 0.75, epochs=2, stage_epochs=5).run()
    assert [record["adjustment"] for record in adjustments(stage)] == ["expand", "shrink", "expand", "shrink"]


def test_the_official_schedule():
    trace = []
    stage = Stage("sparcl", 0.75, preset="official", schedule="epoch_start", initial_mask="magnitude")
    stage.run(on_epoch=lambda stage, task, epoch: trace.append((epoch, stage.active())))
    sizes = {layer.name: layer.size for layer in stage.sparsifier.sparse_layers}
    for epoch, active in trace:
        grown = epoch < 2  # epochs 0, 1, 2 start with a growth; the last prune stands before epoch 3
        for name, size in sizes.items():
            assert active[name] == size - round(size * (0.74 if grown else 0.75)), epoch


def test_importance_against_brute_force():
    """CWI from float64 gradients of a masked dense network over the very same batches."""
    stage = Stage("sparcl", 0.75, dgm=False, ddr=False).run(tasks=2)
    task, masks = stage.tasks[1], stage.sparsifier.masks
    probe = stage.generators["importance"].bit_generator
    state = probe.state
    ours = masks.importance(task, task.train, 3)
    probe.state = state
    parameters, network = stage.network.parameters, dense_copy(stage.network)
    reference = network.parameters

    def gradients(batches, loss_of):
        reference.gradients.flat[...] = 0
        for images, labels in batches:
            loss_of(network.forward(images.astype(np.float64))[1], torch.from_numpy(labels)).backward()
        return {name: reference.gradients.dense(name).ravel() / 3 for name in ours}

    generator = stage.generators["importance"]
    current = []
    for _ in range(3):
        chosen = generator.choice(len(task.train), BATCH, replace=False)
        images = stage.augmentation.train(task.train.images, task.train.positions[chosen], generator)
        current.append((images, task.train.labels[chosen]))
    # The single-head loss: only the current task's classes 2 and 3 compete.
    first = gradients(current, lambda logits, labels: F.cross_entropy(logits[:, 2:4], labels - 2))
    drawn = [stage.method.buffer.draw(BATCH, generator) for _ in range(3)]
    second = gradients([(draw.images, draw.labels) for draw in drawn], F.cross_entropy)
    for name, values in ours.items():
        index = parameters.index[name]
        weight = reference.values.dense(name).ravel()[index]
        expected = np.abs(weight) + 0.5 * np.abs(first[name][index]) + 1.0 * np.abs(second[name][index])
        np.testing.assert_allclose(values, expected, rtol=1e-3, atol=1e-5)


def test_measuring_importance_leaves_no_trace():
    stage = Stage("sparcl", 0.75).run(tasks=2)
    parameters = stage.network.parameters
    before = [parameters.values.flat.copy(), parameters.gradients.flat.copy(), parameters.statistics.flat.copy()]
    replay = stage.generators["replay"].bit_generator.state
    stage.sparsifier.masks.importance(stage.tasks[1], stage.tasks[1].train, 2)
    after = [parameters.values.flat, parameters.gradients.flat, parameters.statistics.flat]
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)
    assert stage.generators["replay"].bit_generator.state == replay


@pytest.mark.parametrize(("one_shot", "left"), [(False, [48, 44, 41, 37]), (True, [48, 48, 48, 34])])
def test_removal_takes_exactly_rho_and_gives_it_back(one_shot, left):
    trace = []
    stage = Stage("sparcl", 0.75, epochs=6, one_shot=one_shot, cutoff=4 if not one_shot else 3)
    stage.run(on_epoch=lambda stage, task, epoch: trace.append(len(stage.sparsifier.samples(task))))
    expected = [left[0], *left[1:], *[34] * (7 - len(left) - 1), 34]
    assert trace == [*expected[:7]] * 3
    assert round(0.3 * SAMPLES) == SAMPLES - 34


def test_the_samples_with_the_fewest_mistakes_go():
    mistakes = {}

    def count(stage, batch, logits):
        wrong = logits[:, : batch.classes.stop].argmax(axis=1) != batch.labels
        for sample, is_wrong in zip(batch.chosen, wrong, strict=True):
            mistakes[sample] = mistakes.get(sample, 0) + bool(is_wrong)

    def check(stage, task, epoch):
        if epoch in (0, 1, 2):
            gone = set(mistakes) - set(stage.sparsifier.samples(task))
            kept = set(mistakes) & set(stage.sparsifier.samples(task))
            assert max(mistakes[s] for s in gone) <= min(mistakes[s] for s in kept)
        mistakes.clear()

    Stage("sparcl", 0.75, epochs=5).run(tasks=2, on_step=count, on_epoch=check)


def test_samples_that_a_stage_left_out_do_not_count_as_easy():
    removal = Stage("sparcl", 0.75, rho=0.5, cutoff=1).sparsifier.removal
    removal.begin_task(Stage("none", 0.0).tasks[0])
    right = np.arange(SAMPLES) < SAMPLES // 2
    shown = np.arange(SAMPLES - 4)  # the last four were never presented, as with drop_last
    removal.was_right[shown], removal.mistakes[shown] = right[shown], ~right[shown]
    assert removal.end_stage(1) == SAMPLES // 2
    assert removal.samples().tolist() == np.flatnonzero(~right).tolist()


def test_the_default_share_of_masked_gradients_leaves_weights_to_update():
    assert [gradient_share(s, None) for s in (0.75, 0.9, 0.95)] == [0.05, 0.02, 0.02]  # the paper's
    for sparsity in (0.98, 0.99, 0.999):
        assert 0 < gradient_share(sparsity, None) < 1 - sparsity
    with pytest.raises(SparclError, match="leaves no weight to be updated"):
        gradient_share(0.9, 0.1)
    with pytest.raises(SparclError, match=r"leaves no weight of conv2\.weight to be updated"):
        Stage("sparcl", 0.75, q=0.05, layer_sparsity={"conv2": 0.97})
    for sparsities in ({"conv2": 0.97}, {"conv2": 0.995}):
        stage = Stage("sparcl", 0.75, layer_sparsity=sparsities).run(tasks=1)
        assert all(0 < count <= stage.active()[name] for name, count in stage.sparsifier.gradient_counts().items())


@pytest.mark.parametrize(("sparsity", "q"), [(0.75, 0.05), (0.9, 0.02), (0.95, 0.02), (0.0, 0.3)])
def test_only_the_chosen_weights_are_updated(sparsity, q):
    stage = Stage("sparcl", sparsity, q=q, tdm=sparsity > 0)
    last = {}
    changed_outside = []

    def look(stage, batch, logits):
        parameters = stage.network.parameters
        for layer in stage.sparsifier.sparse_layers:
            values = parameters.values[layer.name]
            updated = parameters.updated[layer.name]
            assert len(updated) == len(values) - round(q * layer.size)
            key = (layer.name, parameters.layout)
            if key in last:
                moved = np.flatnonzero(values != last[key])
                changed_outside.extend(np.setdiff1d(moved, updated))
            last[key] = values.copy()

    stage.run(tasks=2, on_step=look)
    assert not changed_outside


def test_gradient_masks_are_refreshed_on_time_and_by_importance():
    stage = Stage("sparcl", 0.75, gradient_interval=4, ddr=False, tdm=False)
    masks = stage.sparsifier.gradient_masks
    refreshed, scores = [], {}
    original = masks._scores

    def scored(where):
        result = original(where)
        scores[where.start] = result
        if where == stage.network.parameters.gradients.slices[stage.sparsifier.sparse_layers[0].name]:
            refreshed.append(stage.position.total_steps)
        return result

    masks._scores = scored

    def look(stage, batch, logits):
        for layer in stage.sparsifier.sparse_layers:
            where = stage.network.parameters.gradients.slices[layer.name]
            updated = stage.network.parameters.updated[layer.name]
            outside = np.setdiff1d(np.arange(len(scores[where.start])), updated)
            assert scores[where.start][updated].min() >= scores[where.start][outside].max()

    stage.run(tasks=1, on_step=look)
    assert refreshed == [0, 4, 8, 12, 16, 20]


@pytest.mark.parametrize("replay_first", [False, True])
def test_a_method_that_slices_its_replay_keeps_both_terms_of_the_importance(monkeypatch, replay_first):
    """CGI = alpha |gradient of the batch| + beta |gradient of what is replayed|, each from autograd on a copy."""
    expected = {}

    class Sliced(Rehearsal):
        def step(self, batch):
            parts = [(batch.images, batch.labels, False)]
            if self.buffer:
                drawn = self.replay()
                parts.insert(0 if replay_first else 1, (drawn.images[:5], drawn.labels[:5], True))
                for images, labels, replayed in parts:
                    expected[replayed] = gradients(self.network, images, labels)
            found = {replayed: self.descend(i, cross_entropy(y), replayed=replayed) for i, y, replayed in parts}
            self.update()
            self.buffer.add(batch)
            return found[False]

    def gradients(network, images, labels):
        reference = dense_copy(network)
        logits = reference.forward(images.astype(np.float64))[1]
        F.cross_entropy(logits, torch.from_numpy(labels)).backward()
        of_layer = reference.parameters.gradients.dense
        return {
            network.parameters.gradients.slices[name].start: np.abs(of_layer(name).ravel()[index])
            for name, index in network.parameters.index.items()
        }

    monkeypatch.setitem(METHODS, "sliced", Sliced)
    stage = Stage("sparcl", 0.75, method="sliced", gradient_interval=3, tdm=False, ddr=False)
    masks, checked = stage.sparsifier.gradient_masks, []
    original = masks._scores

    def scored(where):
        found = original(where)
        if expected:
            both = 0.5 * expected[False][where.start] + 1.0 * expected[True][where.start]
            np.testing.assert_allclose(found, both, rtol=1e-3, atol=1e-5)
            checked.append(where)
        return found

    masks._scores = scored
    stage.run(tasks=1)
    assert len(checked) == 7 * len(stage.sparsifier.sparse_layers)  # of 24 steps every third, but for the first


def test_stages_shrink_with_the_epochs_that_a_task_gets():
    stage = Stage("sparcl", 0.75, epochs=40, stage_epochs=5)
    sparsifier, task = stage.sparsifier, stage.tasks[0]
    lengths = []
    for epochs in range(1, 41):
        stage.replan(epochs)
        lengths.append(sparsifier.stage_length)
        presented = [sparsifier.samples_in_epoch(task, epoch) for epoch in range(epochs)]
        assert stage.steps_of(task) == sum(map(stage.batches, presented))
        assert presented[0] == SAMPLES and presented == sorted(presented, reverse=True)
    assert lengths == [max(1, round(epochs / 8)) for epochs in range(1, 41)]
    assert lengths[-1] == 5


def test_with_nothing_to_do_training_is_bit_identical():
    """Sparsity 0, rho 0 and q 0: SparCL-DER++ is DER++."""
    nothing = Stage("sparcl", 0.0, rho=0.0, q=0.0).run()
    plain = Stage("none", 0.0).run()
    np.testing.assert_array_equal(nothing.network.parameters.values.flat, plain.network.parameters.values.flat)
    np.testing.assert_array_equal(nothing.method.buffer.images, plain.method.buffer.images)


@pytest.mark.parametrize("component", ["tdm", "ddr", "dgm"])
def test_each_component_alone_has_an_effect(component):
    switches = {name: name == component for name in ("tdm", "ddr", "dgm")}
    alone = Stage("sparcl", 0.75, **switches).run()
    off = Stage("sparcl", 0.75, **dict.fromkeys(switches, False)).run()
    assert (len(adjustments(alone)) > 0) == (component == "tdm")
    assert any("removed_samples" in record for record in alone.records) == (component == "ddr")
    assert bool(alone.network.parameters.updated) == (component == "dgm")
    assert not np.array_equal(alone.network.parameters.values.flat, off.network.parameters.values.flat)
