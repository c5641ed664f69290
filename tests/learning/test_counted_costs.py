"""What a run counts while it goes on, against what its plan said before."""

import pytest
from own_sparsifier import Halving
from runs import Nobody

from sparcl.data import load_stream
from sparcl.learning.costs import network_cost, training_plan
from sparcl.learning.run_directory import RunDirectory
from sparcl.learning.settings import from_preset, resolve, with_changes
from sparcl.learning.trainer import Trainer
from sparcl.metrics.schedule import count_plan
from sparcl.network.part_rates import frozen_parameters
from sparcl.sparsity import SPARSIFIERS

SMALL = ["data.tasks=3", "epochs=4", "width=16", "threads=1", "buffer_size=30", "batch_size=32"]


class Steps(Nobody):
    def started(self, total_steps, done_steps):
        self.total = total_steps


def test_a_sparsifier_of_ones_own_plans_its_samples(tmp_path, monkeypatch):
    """What it says beforehand is the length of the run, and what the run costs."""
    monkeypatch.setitem(SPARSIFIERS, "halving", Halving)
    settings = resolve(with_changes(from_preset("digits/er"), [*SMALL, "sparsifier=halving"]))
    stream, steps = load_stream("digits", tasks=3), Steps()
    trainer = Trainer(settings, stream, RunDirectory(tmp_path), steps)
    trainer.run()
    whole = sum(-(-len(task.train) // 32) for task in stream.tasks)
    assert 2 * whole < steps.total == trainer.position.total_steps < 4 * whole
    planned = training_plan(settings, stream)
    assert planned.steps() == steps.total
    assert count_plan(network_cost(trainer.network.graph), planned).flops == trainer.watcher.counter.flops


def counted_and_planned(preset, tmp_path, *changes):
    settings = resolve(with_changes(from_preset(preset), [*SMALL, *changes]))
    stream = load_stream("digits", tasks=3)
    trainer = Trainer(settings, stream, RunDirectory(tmp_path), Nobody())
    trainer.run()
    graph = trainer.network.graph
    plan = count_plan(network_cost(graph, frozen_parameters(graph, settings.rates)), training_plan(settings, stream))
    return trainer.watcher.counter, plan


@pytest.mark.parametrize("preset", ["digits/sgd", "digits/er", "digits/derpp", "digits/snip-derpp-80"])
def test_dense_and_fixed_masks_are_counted_exactly(preset, tmp_path):
    counted, planned = counted_and_planned(preset, tmp_path)
    ours, theirs = counted.by_phase("full"), planned.by_phase("full")
    ours.pop("importance"), theirs.pop("importance")  # SNIP measures saliency once, which a plan leaves out
    assert ours == theirs


@pytest.mark.parametrize(
    ("preset", "changes"),
    [
        ("digits/ewc", ["method.fisher_samples=20"]),
        ("digits/derpp", ["drop_last=true"]),
        ("digits/ewc", ["method.fisher_samples=20", "rates={conv1=0, bn1=0, conv2=0, bn2=0}", "backend=torch"]),
        ("digits/sparcl-er-75", ["rates={conv1=0, bn1=0, conv2=0, bn2=0}", "backend=torch", "sparsifier.q=0.04"]),
        ("digits/sparcl-er-75", ["sparsifier.preset=official", "sparsifier.stage_epochs=1"]),
        ("digits/sparcl-er-75", ["batch_size=8", "replay_batch_size=30", "epochs=8", "sparsifier.stage_epochs=4"]),
    ],
)
def test_options_that_change_what_is_computed_are_planned_too(preset, changes, tmp_path):
    counted, planned = counted_and_planned(preset, tmp_path, *changes)
    for phase, flops in planned.by_phase("full").items():
        assert counted.by_phase("full")[phase] == pytest.approx(flops, rel=0.02), phase


@pytest.mark.parametrize("sparsity", ["75", "90", "95"])
def test_sparcl_costs_what_its_plan_says_and_gradient_masks_pay(sparsity, tmp_path):
    """Rounding of counts in these small layers leaves a small difference."""
    counted, planned = counted_and_planned(f"digits/sparcl-derpp-{sparsity}", tmp_path, "sparsifier.q=0.04")
    for phase, flops in planned.by_phase("full").items():
        assert counted.by_phase("full")[phase] == pytest.approx(flops, rel=0.02), phase
    (tmp_path / "off").mkdir()
    without, _ = counted_and_planned(f"digits/sparcl-derpp-{sparsity}", tmp_path / "off", "sparsifier.dgm=false")
    phases = ("backward_weight", "replay_backward_weight")
    saved = sum(without.by_phase("full")[phase] - counted.by_phase("full")[phase] for phase in phases)
    assert 0 < counted.by_phase("full")["refresh"] < saved
