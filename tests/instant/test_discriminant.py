"""The discriminant against NumPy's float64 solution of the same equations, and against really leaving pictures out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparcl.device.reliability import calibration_error
from sparcl.instant.calibration import calibrate, cosines_with, left_out_cosines, softmax
from sparcl.instant.discriminant import PRIOR, Discriminant, leave_one_out


def drawn(seed, counts, width):
    generator = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(counts)), counts)
    centres = generator.normal(size=(len(counts), width))
    return np.rint(1000 * (centres[labels] + generator.normal(size=(len(labels), width)))), labels


def solved(features, labels, shrinkage, variance, freedom):
    """Means and inverse from the definition, with the shrinkage and the average variance given."""
    means = np.stack([features[labels == label].mean(axis=0) for label in range(labels.max() + 1)])
    apart = features - means[labels]
    covariance = (1 - shrinkage) * apart.T @ apart / freedom + shrinkage * variance * np.eye(features.shape[1])
    return means, np.linalg.inv(covariance)


def by_definition(features, labels):
    freedom, width = len(labels) - labels.max() - 1, features.shape[1]
    shrinkage = PRIOR * width / (PRIOR * width + freedom)
    means = np.stack([features[labels == label].mean(axis=0) for label in range(labels.max() + 1)])
    variance = ((features - means[labels]) ** 2).sum() / (freedom * width)
    return shrinkage, variance, freedom


def odds_of(features, means, inverse):
    return features @ inverse @ means.T - 0.5 * np.einsum("cf,fg,cg->c", means, inverse, means)


@given(st.integers(0, 1000), st.lists(st.integers(1, 12), min_size=2, max_size=4), st.integers(2, 30))
def test_log_odds_are_those_of_the_definition(seed, counts, width):
    features, labels = drawn(seed, [max(2, counts[0]), *counts[1:]], width)
    found = Discriminant.of(features, labels, len(counts))
    expected = odds_of(features, *solved(features, labels, *by_definition(features, labels)))
    np.testing.assert_allclose(found.log_odds(features), expected, rtol=1e-8, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("width", [5, 60])  # fewer features than pictures, and more
def test_leaving_one_out_is_as_if_it_had_never_been_there(width):
    features, labels = drawn(3, [6, 1, 9, 4], width)
    shrinkage, variance, freedom = by_definition(features, labels)
    left_out = leave_one_out(Discriminant.of(features, labels, 4), features, labels)
    cosines = left_out_cosines(Discriminant.of(features, labels, 4), features, labels)
    for picture in range(len(labels)):
        others = np.arange(len(labels)) != picture
        if (labels[others] == labels[picture]).sum() == 0:
            others[picture] = True
        means, inverse = solved(features[others], labels[others], shrinkage, variance, freedom)
        np.testing.assert_allclose(left_out[picture], odds_of(features[picture], means, inverse), rtol=1e-7)
        lengths = np.linalg.norm(means, axis=1) * np.linalg.norm(features[picture])
        np.testing.assert_allclose(cosines[picture], means @ features[picture] / lengths, rtol=1e-9)


def test_one_picture_a_class_is_the_nearest_mean():
    features, labels = drawn(5, [1, 1, 1], 8)
    found = Discriminant.of(features, labels, 3)
    new = features + 200 * np.random.default_rng(0).normal(size=features.shape)
    nearest = ((new[:, None] - features) ** 2).sum(axis=2).argmin(axis=1)
    assert (found.log_odds(new).argmax(axis=1) == nearest).all() and found.shrinkage == 1


def test_confidence_comes_true_and_few_known_pictures_are_unknown():
    """Two hundred of three overlapping classes; judged on as many new ones."""
    features, labels = drawn(7, [200] * 3, 40)
    generator = np.random.default_rng(11)
    found = Discriminant.of(features, labels, 3)
    calibration = calibrate(found, features, labels, 0.03)
    centres = np.random.default_rng(7).normal(size=(3, 40))  # the same
    new = 1000 * (centres[labels] + generator.normal(size=features.shape))
    odds = found.log_odds(new)
    confidences = softmax(odds / calibration.temperature)
    assert calibration_error(confidences.max(axis=1), confidences.argmax(axis=1) == labels) < 0.05
    familiar = calibration.familiarity(cosines_with(found.means, new), odds)
    assert (familiar < calibration.threshold).mean() < 0.06
    strange = 1000 * generator.normal(size=features.shape)
    odds = found.log_odds(strange)
    assert (calibration.familiarity(cosines_with(found.means, strange), odds) < calibration.threshold).mean() > 0.5
