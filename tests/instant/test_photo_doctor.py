"""What is found among pictures, against features that were made so, and against learning from a part by hand."""

import numpy as np
import pytest

from sparcl.instant.calibration import Calibration
from sparcl.instant.discriminant import Discriminant
from sparcl.instant.head import Head
from sparcl.instant.kept import Kept, Photo
from sparcl.instant.learning_curve import LearningCurve, learning_curve
from sparcl.instant.left_out import LeftOut
from sparcl.instant.photo_doctor import duplicates, examine, in_short, of_other_classes, of_poor_quality

WIDTH = 24


def kept_of(classes, quality=None):
    """`classes`: by name, rows of features. The digest of a picture is 100 times its class, plus its number."""
    kept = Kept.nothing(WIDTH)
    for number, (name, rows) in enumerate(sorted(classes.items())):
        photos = []
        for place, row in enumerate(rows):
            digest = 100 * (number + 1) + place
            sharpness, contrast = (quality or {}).get(digest, (1.0, 0.2))
            features = np.rint(3000 * np.asarray(row)).astype(np.int16)
            photos.append(Photo(digest, features, b"", sharpness, contrast))
        kept = kept.with_photos(name, photos)
    return kept


def clouds(seed, counts, spread=0.7):
    generator = np.random.default_rng(seed)
    names = ("apples", "pears", "plums", "quinces")
    centres = generator.normal(size=(len(counts), WIDTH))
    return {
        name: centre + spread * generator.normal(size=(count, WIDTH))
        for name, centre, count in zip(names, centres, counts, strict=False)
    }


def test_near_duplicates_are_found_within_and_across_classes():
    classes = clouds(0, [40, 30, 20])
    generator = np.random.default_rng(1)
    classes["apples"][7] = 1.7 * classes["apples"][3] + 0.01 * generator.normal(size=WIDTH)
    classes["plums"][5] = classes["pears"][2] + 0.01 * generator.normal(size=WIDTH)
    kept = kept_of(classes)
    found = {(one.kind, int(kept.digests[one.place]), int(kept.digests[one.other])) for one in duplicates(kept)}
    assert found == {("duplicate", 107, 103), ("in two classes", 305, 202)}


def test_every_pair_of_a_large_set_is_compared(monkeypatch):
    monkeypatch.setattr("sparcl.instant.photo_doctor.BLOCK", 7)
    classes = clouds(2, [30, 30])
    classes["apples"][29] = classes["apples"][0]
    classes["pears"][11] = classes["pears"][10]
    kept = kept_of(classes)
    rows = kept.features / np.linalg.norm(kept.features, axis=1, keepdims=True)
    pairs = {(i, j) for i in range(60) for j in range(i) if rows[i] @ rows[j] >= 0.92}
    assert {(one.place, one.other) for one in duplicates(kept)} == pairs and len(pairs) == 2


def test_pictures_in_the_wrong_class_look_like_another():
    """Three of ninety were given to a wrong class: they are found, and no others."""
    classes = clouds(3, [30, 30, 30], spread=0.4)
    for place, (one, other) in enumerate((("apples", "pears"), ("pears", "plums"), ("plums", "apples"))):
        classes[one][place] = classes[other][20 + place] + 0.1
    kept = kept_of(classes)
    found = list(of_other_classes(kept, LeftOut.of(kept, Head.of(kept, 0.03).calibration)))
    assert sorted(int(kept.digests[one.place]) for one in found) == [100, 201, 302]
    assert "looks like pears" in found[0].reason and found[0].name == "apples"


def test_left_out_says_what_a_discriminant_without_the_picture_says():
    kept = kept_of(clouds(4, [9, 8, 7]))
    found = LeftOut.of(kept, Calibration(temperature=3.0))
    features = kept.features.astype(np.float64)
    shrinkage = Discriminant.of(features, kept.labels, 3).shrinkage
    residuals = features - np.stack([features[kept.labels == k].mean(axis=0) for k in range(3)])[kept.labels]
    spread = shrinkage * (residuals**2).sum() / (21 * WIDTH)
    for place in range(24):
        others = np.arange(24) != place
        means = np.stack([features[others & (kept.labels == k)].mean(axis=0) for k in range(3)])
        rest = features[others] - means[kept.labels[others]]
        precision = np.linalg.inv(spread * np.eye(WIDTH) + (1 - shrinkage) / 21 * rest.T @ rest)
        odds = np.array([-0.5 * (features[place] - m) @ precision @ (features[place] - m) for m in means]) / 3.0
        shares = np.exp(odds - odds.max()) / np.exp(odds - odds.max()).sum()
        assert found.answers[place] == shares.argmax()
        assert found.confidences[place] == pytest.approx(shares.max(), rel=1e-6)
        assert found.own_confidences[place] == pytest.approx(shares[kept.labels[place]], rel=1e-5, abs=1e-12)
    assert found.confusion.sum() == 24 and np.trace(found.confusion) == (found.answers == kept.labels).sum()


def test_blurred_and_empty_pictures_are_found():
    kept = kept_of(clouds(5, [20, 20]), {103: (0.1, 0.2), 205: (1.2, 0.005), 206: (0.6, 0.05)})
    found = {(one.kind, int(kept.digests[one.place])) for one in of_poor_quality(kept)}
    assert found == {("blurred", 103), ("empty", 205)}


def test_the_curve_is_that_of_learning_from_parts():
    kept = kept_of(clouds(6, [16, 12, 3], spread=1.4))
    found = learning_curve(kept, LeftOut.of(kept, Calibration()))
    features, labels = kept.features.astype(np.float64), kept.labels
    for accuracy, parts in zip(found.accuracy[:2], (4, 2), strict=True):
        right = []
        for part in range(parts):
            taught = []
            for label, count in enumerate((16, 12, 3)):
                of_class = np.flatnonzero(labels == label)
                own = min(parts, count)
                taught += [place for number, place in enumerate(of_class) if number % own == part % own]
            model = Discriminant.of(features[sorted(taught)], labels[sorted(taught)], 3)
            asked = [place for place in range(31) if place not in taught]
            right += list(model.log_odds(features[asked]).argmax(axis=1) == labels[asked])
        assert accuracy == pytest.approx(100 * np.mean(right))
    left_out = LeftOut.of(kept, Calibration())
    assert found.accuracy[2] == pytest.approx(100 * np.mean(left_out.answers == left_out.labels))
    assert found.pictures == pytest.approx((31 / 12, 31 / 6, 31 / 3))
    assert learning_curve(kept_of(clouds(6, [8, 7])), left_out) is None  # too few
    assert learning_curve(kept_of(clouds(6, [80])), left_out) is None  # nothing to be told apart


@pytest.mark.parametrize(
    ("accuracy", "expected", "helps"),
    [
        ((60.0, 70.0, 78.0), (82.0, 86.0), True),
        ((60.0, 70.0, 74.0), (75.6, 78.0), True),
        ((90.0, 91.0, 91.2), (91.24, 91.4), False),
        ((90.0, 92.0, 91.0), (91.0, 91.0), False),  # nothing is promised that was not seen
        ((80.0, 79.0, 85.0), (85.0, 85.0), False),  # all noise
        ((50.0, 80.0, 99.0), (99.03, 100.0), False),
    ],
)
def test_the_promise_is_careful(accuracy, expected, helps):
    curve = LearningCurve((5, 10, 20), accuracy, 200)
    assert curve.expected == pytest.approx(expected, abs=0.2) and curve.would_help is helps


def test_few_and_uneven_classes_are_named():
    kept = kept_of(clouds(7, [40, 8, 3, 4]))
    advice = {one.kind: one.text for one in examine(kept, Head.of(kept, 0.03).calibration).advice}
    assert "plums and quinces" in advice["few"] and "pears (8) than of apples (40)" in advice["uneven"]
    assert set(advice) == {"few", "uneven", "curve"}


def test_in_short_counts_pictures_and_nothing_is_said_of_nothing():
    classes = clouds(8, [10, 10], spread=0.6)
    kept = kept_of(classes)
    found = examine(kept, Head.of(kept, 0.03).calibration)
    assert [one.kind for one in found.advice] == ["curve"]
    classes["pears"][3:6] = classes["pears"][2]
    classes["apples"][1] = classes["apples"][0]
    kept = kept_of(classes, {203: (1.0, 0.001)})
    lines = in_short(examine(kept, Head.of(kept, 0.03).calibration))
    assert lines[0] == "Pictures to look at: 4 are nearly the same as others and 1 is empty."
    nothing = Kept.nothing(WIDTH)
    assert in_short(examine(nothing, Calibration())) == []
