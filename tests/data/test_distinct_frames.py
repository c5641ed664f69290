"""Which frames are kept: drawn ones, of which it is known what they are."""

import numpy as np
from PIL import Image, ImageFilter

from sparcl.data.distinct import Picker

SIZE = 64


def scene(number):
    """Sharp blocks that no other scene has."""
    blocks = np.random.default_rng(number).integers(0, 256, (8, 8, 3)).astype(np.uint8)
    return np.asarray(Image.fromarray(blocks).resize((SIZE, SIZE), Image.Resampling.NEAREST)).transpose(2, 0, 1)


def blurred(picture, radius=6):
    image = Image.fromarray(np.ascontiguousarray(picture.transpose(1, 2, 0)))
    return np.asarray(image.filter(ImageFilter.GaussianBlur(radius))).transpose(2, 0, 1)


def noisy(picture, seed):
    noise = np.random.default_rng(seed).normal(0, 4, picture.shape)
    return np.clip(picture + noise, 0, 255).astype(np.uint8)


def picked(pictures, most=100, interval=0.0):
    picker = Picker(most, interval)
    kept = []
    for number, picture in enumerate(pictures):
        kept += picker.add(number / 10, picture)
    kept += picker.finish()
    assert picker.tally.kept == len(kept)
    return kept, picker.tally


def test_every_scene_is_kept_once_and_in_order():
    scenes = [scene(number) for number in range(6)]
    shown = [noisy(one, 10 * place + again) for place, one in enumerate(scenes) for again in range(5)]
    kept, tally = picked(shown)
    assert (tally.kept, tally.alike, tally.blurred) == (6, 24, 0)
    for one, found in zip(scenes, kept, strict=True):
        assert np.abs(found.astype(int) - one).mean() < 5


def test_more_light_is_not_another_scene():
    dark = (scene(0) * 0.5).astype(np.uint8)
    _, tally = picked([dark, dark + 40, dark + 80])
    assert (tally.kept, tally.alike) == (1, 2)


def test_what_moves_is_kept():
    wide = np.concatenate([scene(number) for number in range(4)], axis=2)
    _, tally = picked([wide[:, :, start : start + SIZE] for start in range(0, 3 * SIZE, 8)])
    assert tally.kept == 24 and tally.blurred == 0


def test_blurred_and_empty_ones_are_left_out():
    shown = [scene(number) for number in range(12)]
    spoiled = {3: blurred(shown[3]), 4: blurred(shown[4]), 8: np.full_like(shown[8], 7)}
    kept, tally = picked([spoiled.get(number, one) for number, one in enumerate(shown)])
    assert (tally.kept, tally.alike, tally.blurred) == (9, 0, 3)
    assert all(np.array_equal(found, shown[n]) for found, n in zip(kept, (0, 1, 2, 5, 6, 7, 9, 10, 11), strict=True))


def test_a_scene_that_is_soft_all_the_time_is_not_blurred():
    _, tally = picked([blurred(scene(number), 3) for number in range(12)])
    assert tally.kept == 12 and tally.blurred == 0


def test_no_more_than_wanted_and_spread_over_time():
    shown = [scene(number) for number in range(60)]
    kept, _ = picked(shown, most=6, interval=1.0)
    assert len(kept) == 6
    assert all(np.array_equal(found, shown[10 * place]) for place, found in enumerate(kept))
    assert len(picked(shown, most=6)[0]) == 6
