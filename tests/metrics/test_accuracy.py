import numpy as np
import pytest

from sparcl.metrics import AccuracyMatrix, class_il_and_task_il


def test_measures_by_hand():
    """Three tasks, every number worked out on paper."""
    matrix = AccuracyMatrix(3)
    matrix.rows[...] = [[90, 40, np.nan], [70, 80, 30], [75, 60, 95]]
    matrix.untrained[...] = [50, 45, 20]
    assert matrix.average() == pytest.approx((75 + 60 + 95) / 3)
    assert matrix.forgetting() == pytest.approx(((90 - 75) + (80 - 60)) / 2)
    assert matrix.backward_transfer() == pytest.approx(((75 - 90) + (60 - 80)) / 2)
    assert matrix.forward_transfer() == pytest.approx(((40 - 45) + (30 - 20)) / 2)


def test_what_was_not_measured_is_none():
    matrix = AccuracyMatrix(2)
    matrix.rows[1] = [80, 90]  # as after joint training
    assert matrix.summary() == {"average": 85, "forgetting": None, "bwt": None, "fwt": None}
    single = AccuracyMatrix(1)
    single.rows[0] = [70]
    assert single.summary() == {"average": 70, "forgetting": None, "bwt": None, "fwt": None}


def test_json_round_trip_keeps_every_bit():
    matrix = AccuracyMatrix(3)
    matrix.rows[1] = np.random.default_rng(0).uniform(0, 100, 3)
    again = AccuracyMatrix.from_json(matrix.to_json(), 3)
    np.testing.assert_array_equal(again.rows, matrix.rows)
    np.testing.assert_array_equal(again.untrained, matrix.untrained)


def test_class_il_and_task_il_against_brute_force():
    generator = np.random.default_rng(1)
    logits, labels = generator.normal(size=(200, 10)), generator.integers(4, 6, 200)
    masked = np.where(np.isin(np.arange(10), [4, 5]), logits, -np.inf)
    seen = np.where(np.arange(10) < 8, logits, -np.inf)
    expected = 100 * np.mean(seen.argmax(1) == labels), 100 * np.mean(masked.argmax(1) == labels)
    assert class_il_and_task_il(logits, labels, range(4, 6), 8) == pytest.approx(expected)
