"""SNIP and RigL against their papers' rules."""

import numpy as np
import torch
import torch.nn.functional as F
from driven_loop import BATCH, SAMPLES, Stage, dense_copy


def saliency_by_autograd(stage, name):
    """|w * mean gradient| over the very batches that SNIP will draw, from a float64 copy of the network."""
    task, generator = stage.tasks[0], np.random.default_rng()
    generator.bit_generator.state = stage.generators["importance"].bit_generator.state
    network = dense_copy(stage.network)
    for _ in range(stage.sparsifier.saliency_batches):
        chosen = generator.choice(SAMPLES, BATCH, replace=False)
        images = stage.augmentation.train(task.train.images, task.train.positions[chosen], generator)
        logits = network.forward(images.astype(np.float64))[1]
        F.cross_entropy(logits, torch.from_numpy(task.train.labels[chosen])).backward()
    gradient = network.parameters.gradients.dense(name) / stage.sparsifier.saliency_batches
    return np.abs(network.parameters.values.dense(name) * gradient).ravel()


def test_snip_keeps_the_most_salient_weights_and_never_changes_its_mask():
    name, masks = "conv2.weight", []
    stage = Stage("snip", 0.9)
    weights = np.abs(stage.network.parameters.values.dense(name)).ravel()
    saliency = saliency_by_autograd(stage, name)
    stage.run(on_epoch=lambda stage, task, epoch: masks.append(stage.network.parameters.index[name].copy()))
    assert all(np.array_equal(mask, masks[0]) for mask in masks)
    count = weights.size - round(0.9 * weights.size)
    most_salient = np.sort(np.argsort(-saliency)[:count])
    np.testing.assert_array_equal(masks[0], most_salient)
    assert not np.array_equal(most_salient, np.sort(np.argsort(-weights)[:count]))  # large weights are another choice


def test_rigl_drops_small_weights_and_grows_where_the_gradient_is_large():
    stage = Stage("rigl", 0.8, interval=5)
    name = "conv3.weight"
    seen = []
    original = stage.sparsifier.end_step

    def watched(moment, batch, logits):
        if stage.sparsifier._dense is None:
            return original(moment, batch, logits)
        parameters = stage.network.parameters
        index, values = parameters.index[name].copy(), parameters.values[name].copy()
        gradient = np.abs(stage.sparsifier._dense[name]).ravel()
        original(moment, batch, logits)
        after = parameters.index[name]
        dropped, grown = np.setdiff1d(index, after), np.setdiff1d(after, index)
        assert len(after) == len(index)
        # The paper's schedule: a cosine from 0.3 to 0 at three quarters of the 72 steps.
        exchanged = round(0.15 * (1 + np.cos(np.pi * (moment.total_steps + 1) / 54)) * len(index))
        kept = index[np.argsort(-np.abs(values), kind="stable")[: len(index) - exchanged]]
        assert np.isin(kept, after).all()  # the largest ones
        chosen, others = np.setdiff1d(after, kept), np.setdiff1d(np.arange(gradient.size), after)
        assert len(chosen) == exchanged
        assert gradient[chosen].min(initial=np.inf) >= gradient[others].max()  # dropped ones may come back by it
        assert not parameters.values[name][np.searchsorted(after, grown)].any()
        seen.append((moment.total_steps + 1, len(dropped)))
        return None

    stage.sparsifier.end_step = watched
    stage.run()
    steps = [step for step, _ in seen]
    assert steps == [step for step in range(5, 73, 5) if step < 0.75 * 72]
    assert seen[0][1] > seen[-1][1]  # the share decays
