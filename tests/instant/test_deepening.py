"""Training the upper part: bit for bit the same however often it is interrupted, and of use."""

import numpy as np
import pytest
from small_backbone import SIZE, Watcher, small_backbone, striped_pictures

from sparcl.errors import SparclError
from sparcl.instant import deepening
from sparcl.instant.deepening import Deepening
from sparcl.instant.features import FeatureExtractor
from sparcl.instant.upper_part import trained_parameters
from sparcl.instant.verdict import held_out, judge_deepening
from sparcl.learning.loop import Stopped


@pytest.fixture
def backbone(tmp_path):
    return small_backbone(tmp_path)


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(deepening, "STEPS", 40)


def begin(backbone, watcher=None, count=60, **changes):
    pictures, labels, digests = striped_pictures(count)
    watcher = watcher or Watcher()
    training = Deepening(backbone, SIZE, pictures, labels, digests, listener=watcher, threads=1, **changes)
    watcher.training = training
    return training


def trained(backbone, **changes):
    training = begin(backbone, **changes)
    training.run()
    return training.upper()


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name in one:
        assert one[name].dtype == other[name].dtype and one[name].tobytes() == other[name].tobytes(), name


def test_the_same_seed_gives_the_same_bits_and_another_one_does_not(backbone):
    one, again, other = trained(backbone), trained(backbone), trained(backbone, seed=1)
    assert_same(one, again)
    assert any(one[name].tobytes() != other[name].tobytes() for name in one)


@pytest.mark.parametrize("steps", [1, 2, 7, 30])
def test_what_was_interrupted_goes_on_bit_for_bit(backbone, steps):
    saved = []
    training = begin(backbone, Watcher(stop_after=steps), save=lambda *found: saved.append(found))
    with pytest.raises(Stopped):
        training.run()
    training.checkpoint()
    tensors, state = saved[-1]
    copied = {name: np.array(tensor) for name, tensor in tensors.items()}
    resumed = begin(backbone, resume=(copied, state))
    assert resumed.position.total_steps == steps
    resumed.run()
    assert_same(resumed.upper(), trained(backbone))


def test_labels_need_not_be_those_of_all_classes(backbone):
    """A class of which every picture is held out is not trained on."""
    pictures, labels, digests = striped_pictures(60)
    training = Deepening(backbone, SIZE, pictures, 2 * labels + 5, digests, listener=Watcher(), threads=1)
    training.run()
    assert_same(training.upper(), trained(backbone))


def test_a_checkpoint_of_other_pictures_is_refused(backbone):
    saved = []
    begin(backbone, save=lambda *found: saved.append(found)).checkpoint()
    with pytest.raises(ValueError, match="other pictures"):
        begin(backbone, count=57, resume=saved[0])
    with pytest.raises(ValueError, match="other pictures"):
        begin(backbone, seed=1, resume=saved[0])


def test_weights_are_sparse_and_norms_stay(backbone):
    upper, own = trained(backbone), backbone.parameters(SIZE)
    sparse = [name for name in upper if name.startswith("index.")]
    assert sparse
    for name in sparse:
        size = own.values.specs[name.removeprefix("index.")].size
        assert len(upper[name]) == size - round(deepening.SPARSITY * size)
    for name in own.statistics:
        if f"statistics.{name}" in upper:
            np.testing.assert_array_equal(upper[f"statistics.{name}"], own.statistics[name])


def test_the_first_mask_is_that_of_the_largest_weights(backbone):
    upper, own = begin(backbone).upper(), backbone.parameters(SIZE)
    for name in (name.removeprefix("index.") for name in upper if name.startswith("index.")):
        magnitudes = np.abs(own.values.dense(name)).ravel()
        kept = np.zeros(len(magnitudes), bool)
        kept[upper[f"index.{name}"]] = True
        assert magnitudes[kept].min() >= magnitudes[~kept].max()
        np.testing.assert_array_equal(upper[f"parameters.{name}"], own.values.dense(name).ravel()[kept])


def test_the_classifier_begins_with_the_discriminant(backbone):
    training = begin(backbone)
    features = training._features(0)
    right = training.network.predict(training.latents.restored(np.arange(60), 0)).argmax(axis=1) == np.arange(60) % 3
    assert features.shape == (60, backbone.features)
    assert right.mean() > 0.5  # a third by chance


def test_deep_features_tell_pictures_apart_that_were_never_seen(backbone, monkeypatch):
    monkeypatch.setattr(deepening, "STEPS", 250)
    pictures, labels, digests = striped_pictures(240)
    held = held_out(digests, labels)
    watcher = Watcher()
    training = Deepening(backbone, SIZE, pictures[~held], labels[~held], digests[~held], listener=watcher, threads=1)
    training.run()
    assert np.mean(watcher.losses[-20:]) < np.mean(watcher.losses[:20])

    def features(extractor):
        return np.stack([extractor(picture) for picture in pictures])

    before = features(FeatureExtractor(backbone, SIZE))
    after = features(FeatureExtractor(backbone, SIZE, trained_parameters(backbone, SIZE, training.upper())))
    verdict = judge_deepening(before, after, labels, held)
    assert verdict.kept and verdict.pictures == held.sum()
    assert verdict.after > verdict.before


def test_it_goes_on_from_a_former_upper_part(backbone):
    former = trained(backbone)
    begun = begin(backbone, upper=former).network.parameters
    expected = trained_parameters(backbone, SIZE, former)
    for name in (name.removeprefix("parameters.") for name in former if name.startswith("parameters.")):
        np.testing.assert_array_equal(begun.values.dense(name), expected.values.dense(name))
    for name in (name.removeprefix("statistics.") for name in former if name.startswith("statistics.")):
        np.testing.assert_array_equal(begun.statistics[name], expected.statistics[name])


def test_no_time_is_at_least_one_step(backbone):
    watcher = Watcher()
    training = begin(backbone, watcher, seconds=1e-6)
    training.run()
    assert 1 <= len(watcher.losses) <= 4


def test_one_class_cannot_be_learned_deeply(backbone):
    pictures, labels, digests = striped_pictures(4)
    with pytest.raises(SparclError, match="One class"):
        Deepening(backbone, SIZE, pictures, 0 * labels, digests, listener=Watcher())
