"""Latents of views in 8 bits."""

import numpy as np
import pytest
from small_backbone import SIZE, small_backbone, striped_pictures

from sparcl.instant.latents import LatentExtractor, LatentViews, in_eight_bits, views_for, views_of
from sparcl.instant.upper_part import lower_graph
from sparcl.network.parameters import Parameters
from sparcl.network.torch import TorchNetwork


@pytest.fixture
def extractor(tmp_path):
    return LatentExtractor(small_backbone(tmp_path), SIZE)


def test_latents_are_those_of_torch(tmp_path):
    backbone = small_backbone(tmp_path)
    pictures, _, _ = striped_pictures(4)
    graph, whole = lower_graph(backbone.graph(SIZE)), backbone.parameters(SIZE)
    lower = Parameters(graph)
    for store, source in ((lower.values, whole.values), (lower.statistics, whole.statistics)):
        for name in store:
            store[name][...] = source[name]
    mean, std = (np.array(numbers)[:, None, None] for numbers in (backbone.mean, backbone.std))
    expected = TorchNetwork(graph, lower).predict(((pictures / 255 - mean) / std).astype(np.float32))
    found = LatentExtractor(backbone, SIZE).maps(pictures)
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(found.reshape(4, -1), expected, rtol=1e-4, atol=1e-5)


def test_eight_bits_are_off_by_half_a_step_at_most(extractor):
    pictures, _, digests = striped_pictures(3)
    latents = extractor.of_pictures(pictures, digests, 7)
    views = latents.numbers.shape[1]
    for place in range(3):
        exact = extractor.maps(views_of(pictures[place], int(digests[place]), 7, views))
        off = np.abs(latents.restored(np.full(views, place), np.arange(views)) - exact)
        assert (off <= 0.51 * latents.step[place][..., None, None] + 1e-6).all()
        assert off.max() > 0  # else these are no 8 bits


def test_a_channel_without_differences_stays_exact():
    maps = np.full((2, 3, 4, 4), 0.3, np.float32)
    numbers, low, step = in_eight_bits(maps)
    assert not numbers.any() and not step.any()
    np.testing.assert_array_equal(low, np.float32(0.3))


def test_views_depend_on_the_picture_and_the_seed_alone():
    pictures, _, digests = striped_pictures(2)
    views = views_of(pictures[0], int(digests[0]), 3, 6)
    np.testing.assert_array_equal(views[0], pictures[0])
    np.testing.assert_array_equal(views[1], pictures[0][:, :, ::-1])
    np.testing.assert_array_equal(views, views_of(pictures[0], int(digests[0]), 3, 6))
    np.testing.assert_array_equal(views[:4], views_of(pictures[0], int(digests[0]), 3, 4))
    assert len({view.tobytes() for view in views}) == 6
    assert not np.array_equal(views[2], views_of(pictures[0], int(digests[0]), 4, 6)[2])


def test_a_latent_does_not_depend_on_the_other_pictures(extractor):
    pictures, _, digests = striped_pictures(6)
    all_of_them = extractor.of_pictures(pictures, digests, 0)
    two = extractor.of_pictures(pictures[2:4], digests[2:4], 0)
    np.testing.assert_array_equal(all_of_them.numbers[2:4], two.numbers)
    np.testing.assert_array_equal(all_of_them.low[2:4], two.low)


def test_a_picture_may_lie_in_memory_as_it_was_decoded(extractor):
    pictures, _, digests = striped_pictures(1)
    decoded = np.ascontiguousarray(pictures.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    found = extractor.of_pictures(decoded, digests, 0)
    np.testing.assert_array_equal(found.numbers, extractor.of_pictures(pictures, digests, 0).numbers)


def test_few_pictures_have_more_views():
    assert [views_for(count) for count in (1, 100, 1000, 2000, 10**6)] == [8, 8, 4, 2, 2]


def test_training_draws_every_view(extractor):
    pictures, _, digests = striped_pictures(2)
    latents = extractor.of_pictures(pictures, digests, 0)
    drawn = LatentViews.of(latents).train(latents.numbers, np.zeros(200, np.int64), np.random.default_rng(0))
    every = latents.restored(np.zeros(8, np.int64), np.arange(8))
    shares = [(drawn == view).all(axis=(1, 2, 3)).mean() for view in every]
    assert min(shares) > 0.05 and sum(shares) == pytest.approx(1)
