"""FDR: two steps of descent, each against autograd; what the buffer keeps."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from reference import gradient


def test_a_step_on_the_batch_and_one_on_the_distance(bench):
    table = bench("fdr", alpha=0.7)
    method, task = table.method, table.task(1)
    table.learn(table.task(0))
    method.begin_task(task)
    network, batch = method.network, table.batch_of(task, 0)
    frozen = network.with_parameters(network.parameters.copy())
    drawn = []
    original = method.replay
    method.replay = lambda: drawn.append(original()) or drawn[-1]
    method.step(batch)
    labels = torch.from_numpy(batch.labels)
    frozen.forward(batch.images)  # moves the running statistics, as the first step does
    first = gradient(frozen, [(batch.images, lambda z: F.cross_entropy(z, labels))])
    frozen.parameters.values.flat[...] -= np.float32(0.03) * first
    (a,) = drawn
    target = F.softmax(torch.from_numpy(a.logits), 1)
    second = gradient(frozen, [(a.images, lambda z: 0.7 * torch.linalg.norm(F.softmax(z, 1) - target, dim=1).mean())])
    assert np.abs(second).max() > 1e-4
    expected = frozen.parameters.values.flat - np.float32(0.03) * second
    np.testing.assert_allclose(network.parameters.values.flat, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("backend", ["torch", "native"])
def test_the_buffer_is_shared_by_the_tasks_and_holds_outputs_from_their_end(bench, backend):
    table = bench("fdr", buffer_size=20, tasks=3, backend=backend)
    buffer = table.method.buffer
    for index, share in enumerate((20, 10, 6)):
        table.learn(table.task(index), steps=3)
        assert np.bincount(buffer.tasks[: len(buffer)]).tolist() == [share] * (index + 1)
        new = slice(len(buffer) - share, len(buffer))
        images = table.augmentation.test(buffer.images, np.arange(new.start, new.stop))
        np.testing.assert_allclose(buffer.logits[new], table.method.network.predict(images), rtol=1e-5, atol=1e-6)
    assert len(buffer) <= buffer.capacity
