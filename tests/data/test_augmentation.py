"""The augmentation kernel against NumPy, on every instruction set."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sparcl import _engine
from sparcl.data import Augmentation

MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)


def reference(
    image: NDArray[np.uint8], dy: int, dx: int, flip: bool, augmentation: Augmentation
) -> NDArray[np.float32]:
    """Pad with black, crop, mirror, normalise."""
    pad = augmentation.padding
    _, height, width = image.shape
    padded = np.pad(image, ((0, 0), (pad, pad), (pad, pad)))
    crop = padded[:, pad + dy : pad + dy + height, pad + dx : pad + dx + width]
    crop = crop[:, :, ::-1] if flip else crop
    mean = np.array(augmentation.mean, dtype=np.float64)[:, None, None]
    std = np.array(augmentation.std, dtype=np.float64)[:, None, None]
    return ((crop / 255.0 - mean) / std).astype(np.float32)


def random_images(seed: int, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


@given(
    height=st.integers(1, 40),
    width=st.integers(1, 40),
    channels=st.sampled_from([1, 3]),
    padding=st.integers(0, 45),
    flip=st.booleans(),
    seed=st.integers(0, 1000),
)
@settings(deadline=None, max_examples=80)
def test_training_images(height: int, width: int, channels: int, padding: int, flip: bool, seed: int) -> None:
    images = random_images(seed, (6, channels, height, width))
    augmentation = Augmentation(padding, flip, MEAN[:channels], STD[:channels])
    positions = np.array([5, 0, 0, 3, 2])
    result = augmentation.train(images, positions, np.random.default_rng(seed))
    # The same draws, made the same way.
    generator = np.random.default_rng(seed)
    shifts = generator.integers(-padding, padding + 1, size=(5, 2), dtype=np.int32)
    flips = generator.integers(0, 2, size=5, dtype=np.uint8) if flip else np.zeros(5, dtype=np.uint8)
    for n, position in enumerate(positions):
        expected = reference(images[position], int(shifts[n, 0]), int(shifts[n, 1]), bool(flips[n]), augmentation)
        np.testing.assert_allclose(result[n], expected, rtol=1e-5, atol=1e-5)


def test_test_images_are_only_normalised() -> None:
    images = random_images(0, (4, 3, 32, 32))
    augmentation = Augmentation(4, True, MEAN, STD)
    result = augmentation.test(images, np.array([3, 1]))
    for n, position in enumerate((3, 1)):
        np.testing.assert_allclose(
            result[n], reference(images[position], 0, 0, False, augmentation), rtol=1e-5, atol=1e-5
        )


def test_shifts_and_flips_take_every_value() -> None:
    image = np.zeros((1, 1, 9, 9), dtype=np.uint8)
    image[0, 0, 4, 5] = 255
    augmentation = Augmentation(2, True, (0.0,), (1.0,))
    batch = augmentation.train(image, np.zeros(2000, dtype=np.int64), np.random.default_rng(0))
    places = {(int(y), int(x)) for y, x in zip(*np.nonzero(batch.sum(axis=(0, 1))), strict=True)}
    assert places == {(y, x) for y in range(2, 7) for x in range(1, 8)}


def test_same_generator_same_batch_whatever_the_threads() -> None:
    images, positions = random_images(0, (50, 3, 32, 32)), np.arange(50)
    augmentation = Augmentation(4, True, MEAN, STD)
    before, results = _engine.threads(), []
    try:
        for threads in (1, 2, 5):
            _engine.set_threads(threads)
            results.append(augmentation.train(images, positions, np.random.default_rng(3)).tobytes())
    finally:
        _engine.set_threads(before)
    assert len(set(results)) == 1
    assert augmentation.train(images, positions, np.random.default_rng(4)).tobytes() != results[0]


def test_read_only_memory_maps_are_used_in_place(tmp_path: Path) -> None:
    images = random_images(0, (10, 3, 8, 8))
    np.save(tmp_path / "images.npy", images)
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    augmentation = Augmentation(1, True, MEAN, STD)
    assert (augmentation.test(mapped, np.arange(10)) == augmentation.test(images, np.arange(10))).all()


def test_empty_batch() -> None:
    result = Augmentation(1, True, MEAN, STD).train(
        random_images(0, (2, 3, 8, 8)), np.array([], dtype=np.int64), np.random.default_rng(0)
    )
    assert result.shape == (0, 3, 8, 8)


@pytest.mark.parametrize("position", [-1, 4, 2**62, -(2**63)])
def test_positions_outside_the_images(position: int) -> None:
    with pytest.raises(ValueError, match="position lies outside"):
        Augmentation(1, True, MEAN, STD).test(random_images(0, (4, 3, 8, 8)), np.array([0, position]))


DIGEST_SCRIPT = """
import hashlib, numpy as np
from sparcl import _engine
from sparcl.data import Augmentation
images = np.random.default_rng(0).integers(0, 256, (40, 3, 33, 31), dtype=np.uint8)
augmentation = Augmentation(5, True, (0.5, 0.4, 0.3), (0.2, 0.25, 0.3))
batch = augmentation.train(images, np.arange(40), np.random.default_rng(1))
print(_engine.instruction_set(), hashlib.sha256(batch.tobytes()).hexdigest())
"""


@pytest.mark.parametrize("instruction_set", _engine.available_instruction_sets())
def test_every_instruction_set_gives_the_same_bytes(instruction_set: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", DIGEST_SCRIPT],
        env={**os.environ, "SPARCL_ISA": instruction_set},
        capture_output=True,
        text=True,
        check=True,
    )
    images = np.random.default_rng(0).integers(0, 256, (40, 3, 33, 31), dtype=np.uint8)
    here = Augmentation(5, True, MEAN, STD).train(images, np.arange(40), np.random.default_rng(1))
    assert ran.stdout.split() == [instruction_set, hashlib.sha256(here.tobytes()).hexdigest()]
