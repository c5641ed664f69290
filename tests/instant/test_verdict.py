"""A trained upper part is kept only if pictures that it never saw say that it is not worse."""

import numpy as np
import pytest

from sparcl.errors import SparclError
from sparcl.instant.verdict import Verdict, check_enough, held_out, judge_deepening

GENERATOR = np.random.default_rng(0)
LABELS = np.arange(200) % 4
DIGESTS = GENERATOR.integers(0, 2**64, 200, dtype=np.uint64)
GOOD = np.eye(4)[LABELS] + GENERATOR.normal(0, 0.3, (200, 4))
BAD = np.eye(4)[LABELS] + GENERATOR.normal(0, 1.5, (200, 4))


def test_better_is_kept_and_worse_is_refused():
    held = held_out(DIGESTS, LABELS)
    assert 15 <= held.sum() <= 50
    better, worse = judge_deepening(BAD, GOOD, LABELS, held), judge_deepening(GOOD, BAD, LABELS, held)
    assert better.kept and better.after > better.before
    assert not worse.kept and worse.after < worse.before
    assert (better.before, better.after) == (worse.after, worse.before)
    assert judge_deepening(GOOD, GOOD, LABELS, held).kept


def test_what_was_trained_on_has_no_say():
    """Features that are perfect where they were trained, and useless elsewhere."""
    held = held_out(DIGESTS, LABELS)
    learned_by_heart = np.where(held[:, None], BAD, 10 * np.eye(4)[LABELS] + 0.01 * GOOD)
    assert not judge_deepening(GOOD, learned_by_heart, LABELS, held).kept


def test_the_numbers_are_those_of_the_nearest_mean_where_all_features_vary_alike():
    held = held_out(DIGESTS, LABELS)
    means = np.stack([GOOD[~held & (label == LABELS)].mean(axis=0) for label in range(4)])
    distances = ((GOOD[held][:, None] - means) ** 2).sum(axis=2)
    right = int((distances.argmin(axis=1) == LABELS[held]).sum())
    assert judge_deepening(GOOD, GOOD, LABELS, held).before == pytest.approx(right, abs=1)


def test_who_is_held_out_depends_on_no_other_picture():
    held = held_out(DIGESTS, LABELS)
    for place in range(0, 200, 7):
        assert held_out(DIGESTS[place : place + 1], LABELS[place : place + 1]) == held[place]
    many = GENERATOR.integers(0, 2**64, 20_000, dtype=np.uint64)
    assert held_out(many, np.zeros(20_000, np.int64)).mean() == pytest.approx(0.15, abs=0.01)


def test_pictures_of_no_class_are_neither_held_out_nor_judged_by():
    labels = LABELS.copy()
    labels[::5] = -1 - labels[::5]
    held = held_out(DIGESTS, labels)
    assert held.any() and not held[labels < 0].any()
    assert judge_deepening(GOOD, GOOD, labels, held).pictures == held.sum()


def test_a_class_with_nothing_to_learn_from_is_not_judged():
    labels = np.append(LABELS, 4)
    features = np.vstack([GOOD, GOOD[:1]])
    held = np.append(held_out(DIGESTS, LABELS), True)
    assert judge_deepening(features, features, labels, held).pictures == held.sum() - 1


def test_without_pictures_to_judge_by_nothing_is_kept():
    assert not Verdict(0, 0, 0).kept
    assert not judge_deepening(GOOD, GOOD, LABELS, np.zeros(200, bool)).kept


def test_too_few_pictures_to_judge_by_are_said_in_one_line():
    check_enough(np.arange(200) < 20)
    with pytest.raises(SparclError, match=r"200 pictures, of which 19 would judge .* About 130 are enough") as error:
        check_enough(np.arange(200) < 19)
    assert "\n" not in str(error.value)
