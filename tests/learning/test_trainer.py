"""What a run does around its steps: the order of samples, tuning, checkpoints."""

import numpy as np
import pytest
from runs import trainer_of

from sparcl.learning import tuning
from sparcl.learning.loop import DivergedError

SMALL = ("epochs=3", "width=4", "threads=1", "buffer_size=30", "backend=native", "data.tasks=2")
FEW = ("data.images_per_task=96", *SMALL)


def orders(trainer, monkeypatch):
    """The samples of each epoch, in the order in which they are presented."""
    found, end_epoch = [], trainer.end_epoch
    monkeypatch.setattr(trainer, "end_epoch", lambda task: (found.append(trainer.order), end_epoch(task)))
    trainer.run()
    return found


def test_removed_samples_do_not_change_the_order_of_the_others(tmp_path, monkeypatch):
    """Two runs of one seed can be compared in pairs, with and without data removal."""
    all_of_them = orders(trainer_of("digits/sparcl-er-75", tmp_path / "a", *FEW, "sparsifier.ddr=false"), monkeypatch)
    fewer = orders(trainer_of("digits/sparcl-er-75", tmp_path / "b", *FEW), monkeypatch)
    assert [len(order) for order in fewer] != [len(order) for order in all_of_them]
    for left, order in zip(fewer, all_of_them, strict=True):
        np.testing.assert_array_equal(left, order[np.isin(order, left)])


@pytest.mark.parametrize("preset", ["digits/snip-er-80", "digits/sparcl-er-80"])
def test_the_engine_is_tuned_with_the_mask_that_it_trains_with(tmp_path, monkeypatch, preset):
    densities = []

    def tune(network, *_):
        (weight,) = (spec for spec in network.graph.parameters() if spec.name == "conv2.weight")
        densities.append(network.parameters.values[weight.name].size / weight.size)
        return []

    monkeypatch.setattr(tuning, "WORTH_TUNING", 0)
    monkeypatch.setattr(tuning, "tune_run", tune)
    trainer_of(preset, tmp_path / "run", *FEW).run()
    (density,) = densities
    assert 0.1 < density < 0.3


def test_what_has_run_away_is_not_kept(tmp_path):
    trainer = trainer_of(
        "digits/er", tmp_path / "run", *SMALL, "method.learning_rate=1e30", "checkpoint.minutes=0", "epochs=1"
    )
    with pytest.raises(DivergedError, match=r"Lower method\.learning_rate"):
        trainer.run()
    assert trainer.position.epoch == 0 and trainer.position.step < 5  # not only at the end of the epoch
    for checkpoint in (tmp_path / "run" / "checkpoints").iterdir():
        assert b"NaN" not in checkpoint.read_bytes()
