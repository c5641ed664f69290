"""Calibration error and AUROC against their definitions, pair by pair."""

import numpy as np
import pytest

from sparcl.device.reliability import auroc, calibration_error


def test_calibration_error_counts_what_is_off():
    """Ten answers with a confidence of .8, six of them right, and ten of .3, six right: off by .2 and by .3."""
    confidences, right = np.repeat([0.8, 0.3], 10), np.array(2 * ([True] * 6 + [False] * 4))
    assert calibration_error(confidences, right) == pytest.approx(0.25)
    assert calibration_error(np.ones(3), np.ones(3, bool)) == 0


def test_auroc_is_the_share_of_pairs_in_order():
    generator = np.random.default_rng(3)
    positive, negative = generator.integers(2, 9, 40).astype(float), generator.integers(0, 7, 30).astype(float)
    pairs = [1.0 if p > n else 0.5 if p == n else 0.0 for p in positive for n in negative]
    assert auroc(positive, negative) == pytest.approx(np.mean(pairs))
    assert auroc(np.array([1.0]), np.array([0.0])) == 1 and auroc(np.array([0.0]), np.array([1.0])) == 0
