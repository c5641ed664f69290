import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sparcl.data import Augmentation, Samples
from sparcl.generators import Generators
from sparcl.methods import Batch, ReservoirBuffer

PLAIN = Augmentation(0, False, (0.0,), (1.0,))


def numbered_samples(count):
    """Sample n has label n and shows n, so what is stored can be recognised."""
    images = np.zeros((count, 1, 2, 2), np.uint8)
    images[:, 0, 0, 0], images[:, 0, 0, 1] = np.arange(count) % 256, np.arange(count) // 256
    return Samples(images, np.arange(count), np.arange(count))


def present(buffer, samples, batch_size, logits=None):
    for start in range(0, len(samples), batch_size):
        chosen = np.arange(start, min(start + batch_size, len(samples)))
        batch = Batch(np.zeros(0, np.float32), samples.labels[chosen], start // 100, range(0), samples, chosen)
        buffer.add(batch, None if logits is None else logits[chosen])


def reservoir_by_the_book(capacity, count, batch_size, generator):
    """Vitter's algorithm R, one sample at a time."""
    slots = []
    for start in range(0, count, batch_size):
        numbers = np.arange(start, min(start + batch_size, count))
        for number, draw in zip(numbers, generator.integers(0, numbers + 1), strict=True):
            if len(slots) < capacity:
                slots.append(int(number))
            elif draw < capacity:
                slots[draw] = int(number)
    return slots


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 40), st.integers(1, 120), st.integers(1, 32), st.integers(0, 99))
def test_it_holds_what_algorithm_r_holds(capacity, count, batch_size, seed):
    generators = Generators(seed)
    buffer = ReservoirBuffer(capacity, (1, 2, 2), 3, PLAIN, generators, keep_logits=True)
    logits = np.random.default_rng(0).normal(size=(count, 3)).astype(np.float32)
    present(buffer, numbered_samples(count), batch_size, logits)
    expected = reservoir_by_the_book(capacity, count, batch_size, Generators(seed)["reservoir"])
    kept = buffer.labels[: len(buffer)]
    assert kept.tolist() == expected
    assert len(buffer) == min(capacity, count)
    np.testing.assert_array_equal(buffer.images[: len(buffer), 0, 0, 0], kept % 256)
    np.testing.assert_array_equal(buffer.logits[: len(buffer)], logits[kept])


def test_every_presented_sample_is_kept_with_the_same_probability():
    """Early, middle and late thirds of the stream: each must hold a third of the buffer, within five sigma."""
    capacity, count, repeats = 30, 300, 200
    thirds = np.zeros(3)
    for seed in range(repeats):
        buffer = ReservoirBuffer(capacity, (1, 2, 2), 3, PLAIN, Generators(seed), keep_logits=False)
        present(buffer, numbered_samples(count), 25)
        thirds += np.histogram(buffer.labels, bins=[0, 100, 200, 300])[0]
    sigma = np.sqrt(repeats * capacity * (1 / 3) * (2 / 3))
    assert (np.abs(thirds - repeats * capacity / 3) < 5 * sigma).all()


def test_draws_do_not_repeat_a_sample_and_are_augmented_anew():
    shifting = Augmentation(1, True, (0.0,), (1.0,))
    buffer = ReservoirBuffer(50, (1, 2, 2), 3, shifting, Generators(0), keep_logits=False)
    present(buffer, numbered_samples(50), 10)
    first, second = buffer.draw(50), buffer.draw(50)
    assert sorted(first.labels) == list(range(50))
    order = np.argsort(first.labels), np.argsort(second.labels)
    assert not np.array_equal(first.images[order[0]], second.images[order[1]])
    assert len(buffer.draw(80).labels) == 50


def test_a_restored_buffer_goes_on_identically():
    samples = numbered_samples(400)
    generators = Generators(5)
    buffer = ReservoirBuffer(20, (1, 2, 2), 400, PLAIN, generators, keep_logits=False)
    present(buffer, samples.select(slice(0, 100)), 7)
    again_generators = Generators(99)
    again_generators.restore(generators.state())
    again = ReservoirBuffer(20, (1, 2, 2), 400, PLAIN, again_generators, keep_logits=False)
    again.restore({name: array.copy() for name, array in buffer.state().items()}, task=0)
    for both in (buffer, again):
        present(both, samples.select(slice(100, 400)), 7)
    np.testing.assert_array_equal(buffer.labels, again.labels)
    np.testing.assert_array_equal(buffer.draw(5).labels, again.draw(5).labels)
    assert again.seen == 400
