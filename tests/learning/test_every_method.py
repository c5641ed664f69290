"""Every method as a whole run: it learns, resumes to the last bit, keeps to its budget, and costs what was said."""

import json

import numpy as np
import pytest
from runs import Nobody, everything_that_must_be_identical, trainer_of
from typer.testing import CliRunner

from sparcl.cli.app import app
from sparcl.errors import SparclError
from sparcl.learning.costs import network_cost, training_plan
from sparcl.learning.settings import from_preset, resolve, with_changes
from sparcl.learning.trainer import Stopped
from sparcl.methods import METHODS, WithBuffer
from sparcl.metrics.schedule import count_plan

NEW = ["ewc", "lwf", "agem", "fdr", "icarl", "packnet", "lps"]
SPARSE = ["ewc", "lwf", "agem", "fdr", "icarl"]
SMALL = [  # 12 steps a task
    *(
        "epochs=2",
        "width=4",
        "threads=1",
        "buffer_size=30",
        "backend=native",
        "data.tasks=3",
        "data.images_per_task=96",
    ),
    *("evaluation.snapshots=2", "evaluation.snapshot_steps=4", "evaluation.bn_recalibration=true"),
]


FROZEN_RUN = [  # 6 steps a task
    *("epochs=2", "width=4", "threads=1", "buffer_size=30", "data.tasks=2", "data.images_per_task=48"),
]


class Crash(Exception):  # noqa: N818 (it stands for the end of the process)
    """The process is gone."""


class CrashAt(Nobody):
    def __init__(self, *steps):
        self.steps = steps

    def stepped(self, position, loss):
        if position.total_steps in self.steps:
            raise Crash


def crash_and_resume(preset, path, changes, *steps):
    for step in steps:
        with pytest.raises(Crash):
            trainer_of(preset, path, *changes, "checkpoint.minutes=0", listener=CrashAt(step)).run()
    trainer_of(preset, path, *changes).run()
    return everything_that_must_be_identical(path)


@pytest.mark.parametrize("preset", [*NEW, *(f"sparcl-{name}-75" for name in SPARSE), "rigl-lwf-75"])
def test_it_resumes_exactly_from_a_crash_in_the_first_task_and_in_later_ones(tmp_path, preset):
    trainer_of(f"digits/{preset}", tmp_path / "whole", *SMALL).run()
    whole = everything_that_must_be_identical(tmp_path / "whole")
    assert crash_and_resume(f"digits/{preset}", tmp_path / "crashed", SMALL, 7, 13, 23, 30) == whole


@pytest.mark.parametrize("name", ["lwf", "icarl", "packnet"])
def test_it_resumes_exactly_on_the_torch_backend_too(tmp_path, name):
    changes = [*SMALL, "backend=torch"]
    trainer_of(f"digits/{name}", tmp_path / "whole", *changes).run()
    whole = everything_that_must_be_identical(tmp_path / "whole")
    assert crash_and_resume(f"digits/{name}", tmp_path / "crashed", changes, 20) == whole


@pytest.mark.parametrize("name", ["ewc", "agem", "icarl", "packnet"])
def test_a_task_ends_once_even_if_its_evaluation_is_broken_off(tmp_path, name):
    trainer_of(f"digits/{name}", tmp_path / "whole", *SMALL).run()
    stopped = trainer_of(f"digits/{name}", tmp_path / "stopped", *SMALL)
    end_task = stopped.method.end_task

    def end_and_ask_to_stop(task):
        end_task(task)
        stopped.request_stop()

    stopped.method.end_task = end_and_ask_to_stop
    with pytest.raises(Stopped):
        stopped.run()
    assert stopped.position.ended
    trainer_of(f"digits/{name}", tmp_path / "stopped", *SMALL).run()
    whole = everything_that_must_be_identical(tmp_path / "whole")
    assert everything_that_must_be_identical(tmp_path / "stopped") == whole


@pytest.mark.parametrize("preset", ["ewc", "sparcl-ewc-75"])
def test_a_stop_while_information_is_gathered_is_obeyed_at_once_and_changes_nothing(tmp_path, preset):
    trainer_of(f"digits/{preset}", tmp_path / "whole", *SMALL).run()
    stopped = trainer_of(f"digits/{preset}", tmp_path / "stopped", *SMALL)
    passes = []

    def count(images, train=True, **rest):
        if not train and stopped.position.task == 1 and stopped.position.epoch == stopped.epochs:
            passes.append(len(images))
            if len(passes) == 5:
                stopped.request_stop()
        return forward(images, train=train, **rest)

    forward, stopped.network.forward = stopped.network.forward, count
    with pytest.raises(Stopped):
        stopped.run()
    assert passes == [1] * 5 and not stopped.position.ended
    trainer_of(f"digits/{preset}", tmp_path / "stopped", *SMALL).run()
    whole = everything_that_must_be_identical(tmp_path / "whole")
    assert everything_that_must_be_identical(tmp_path / "stopped") == whole


@pytest.mark.parametrize("name", NEW)
def test_it_learns_split_digits(tmp_path, name):
    """The preset as it is, on the engine; of two seeds the mean."""
    task_il = []
    for seed in range(2):
        result = trainer_of(f"digits/{name}", tmp_path / str(seed), "threads=1", f"seed={seed}").run()
        task_il.append(result["task_il"]["average"])
        only_task_il = METHODS[name].scenarios == ("task-il",)
        assert (result["class_il"]["average"] is None) == only_task_il
        if only_task_il:
            assert result["task_il"]["forgetting"] == 0
            assert np.isnan(np.array(result["class_il"]["rows"], float)).all()
    assert np.mean(task_il) >= 90


@pytest.mark.parametrize("name", SPARSE)
def test_sparcl_around_it_learns_at_its_sparsity(tmp_path, name):
    changes = ["width=16", "threads=1", "data.tasks=3"]
    trainer = trainer_of(f"digits/sparcl-{name}-75", tmp_path / "run", *changes)
    result = trainer.run()
    assert result["task_il"]["average"] >= 75
    for layer in trainer.sparsifier.sparse_layers:
        assert len(trainer.network.parameters.index[layer.name]) == layer.active()
    events = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert any("removed_samples" in event for event in events)  # DDR
    assert any(event.get("adjustment") == "shrink and expand" for event in events)  # TDM
    epochs = [event for event in events if event["event"] == "epoch"]
    assert all(event["gradient_density"] < event["density"] for event in epochs)  # DGM


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if issubclass(method, WithBuffer)])
@pytest.mark.parametrize("budget", [13, 100])
def test_it_keeps_to_its_buffer(tmp_path, name, budget):
    trainer = trainer_of(f"digits/{name}", tmp_path / "run", *SMALL, f"buffer_size={budget}")
    trainer.run()
    buffer = trainer.method.buffer
    assert 0 < len(buffer) <= budget == len(buffer.images) == len(buffer.labels)
    kept = trainer.method.state()
    assert kept["buffer.images"].shape == (len(buffer), 1, 8, 8)
    assert set(np.unique(buffer.tasks[: len(buffer)])) == {0, 1, 2}


@pytest.mark.parametrize("name", NEW)
def test_it_costs_what_its_plan_says(tmp_path, name):
    trainer = trainer_of(f"digits/{name}", tmp_path / "run", *SMALL, "replay_batch_size=8")
    trainer.run()
    plan = count_plan(network_cost(trainer.network.graph), training_plan(trainer.settings, trainer.stream))
    counted, planned = trainer.watcher.counter.by_phase("full"), plan.by_phase("full")
    if name == "lwf":  # its warm-up does without the old network
        counted["extra"] = pytest.approx(planned["extra"], rel=0.2)
    if name == "fdr":  # the outputs of what goes into the buffer
        planned["extra"] = (30 + 15 + 10) * planned["forward"] // (3 * 2 * 96)
    assert counted == planned


@pytest.mark.parametrize("name", sorted(METHODS))
def test_sparcl_cost_counts_it(name):
    finished = CliRunner().invoke(app, ["cost", f"cifar10/{name}", "--protocol", "reduced", "--json"])
    assert finished.exit_code == 0, finished.output
    costs = json.loads(finished.stdout)
    assert costs["full"]["flops"] >= costs["paper"]["flops"] > 0


@pytest.mark.parametrize("dataset", ["digits", "cifar10", "tiny_imagenet"])
@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_has_its_presets(dataset, name):
    for protocol in ("full", "online") if dataset == "digits" else ("full", "reduced", "online"):
        settings = resolve({**from_preset(f"{dataset}/{name}"), "protocol": protocol})
        assert settings.epochs == {"online": 1, "reduced": 5}.get(protocol, settings.epochs)


def test_hyperparameters_are_those_of_the_table():
    def tuned(preset, *changes):
        return resolve(with_changes(from_preset(preset), changes)).method.options

    def has(preset, *changes, **expected):
        return tuned(preset, *changes).items() >= expected.items()

    assert has("cifar10/ewc", learning_rate=0.03, strength=10, gamma=1)
    assert has("tiny_imagenet/ewc", learning_rate=0.03, strength=25, gamma=1)
    assert has("cifar10/lwf", learning_rate=0.01, alpha=3, weight_decay=5e-4)
    assert has("tiny_imagenet/lwf", learning_rate=0.01, alpha=1, weight_decay=5e-4)
    assert has("cifar10/packnet", learning_rate=0.03, prune_first=0.5)
    assert has("cifar10/lps", learning_rate=0.03)
    assert has("cifar10/agem", learning_rate=0.03)
    assert has("tiny_imagenet/agem", learning_rate=0.01)
    assert has("cifar10/icarl", learning_rate=0.1, weight_decay=1e-5)
    assert has("tiny_imagenet/icarl", learning_rate=0.03)
    assert has("cifar10/fdr", "buffer_size=200", learning_rate=0.03, alpha=0.3)
    assert has("cifar10/fdr", "buffer_size=500", learning_rate=0.03, alpha=1.0)


def test_the_official_preset_leaves_the_weights_of_other_methods_alone():
    official = resolve(with_changes(from_preset("cifar10/sparcl-lwf-90"), ["sparsifier.preset=official"]))
    assert official.method.options["alpha"] == 3


@pytest.mark.parametrize("name", ["er", "ewc", "agem", "fdr", "sparcl-derpp-75", "joint"])
@pytest.mark.parametrize("dataset", ["permuted-digits", "rotated-digits"])
def test_domains_have_one_accuracy(tmp_path, dataset, name):
    changes = [*SMALL, "data.tasks=2", "protocol=online", "epochs=1"]
    trainer = trainer_of(f"{dataset}/{name}", tmp_path / "run", *changes)
    result = trainer.run()
    assert set(result) - {"warnings"} == {"domain_il", "domain_il_snapshots"}  # so short a run may still be guessing
    assert 0 < result["domain_il"]["average"] <= 100
    if name != "joint":
        assert result["domain_il"]["forgetting"] is not None


def test_what_cannot_work_is_refused_in_one_line(tmp_path):
    def refused(preset, *changes):
        with pytest.raises(SparclError) as caught:
            trainer_of(preset, tmp_path / "run", *changes)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    for name in ("packnet", "lps"):
        assert "hands out the weights itself" in refused(f"digits/sparcl-{name}-75")
        assert "no weights left" in refused(f"digits/{name}", "width=1", "data.classes_per_task=1")
    for name in ("packnet", "lps", "lwf", "icarl"):
        assert "cannot learn permuted-digits" in refused(f"permuted-digits/{name}")
    assert "at least 5" in refused("digits/agem", "buffer_size=3")
    assert "at least 2" in refused("digits/agem", "buffer_size=7", "model=resnet18", "width=4")
    assert "at least 10" in refused("digits/icarl", "buffer_size=9")
    assert "no setting called 'method.single_head'" in refused("digits/packnet", "method.single_head=true")


@pytest.mark.parametrize(
    "method", ["sgd", "derpp", "icarl", "ewc", "agem", "lwf", "fdr", "sparcl-er-75", "rigl-derpp-80"]
)
@pytest.mark.parametrize("optimizer", ["optimizer.momentum=0.9", "optimizer=adamw"])
def test_frozen_parts_stay_as_they_were_with_any_method(tmp_path, method, optimizer):
    changes = [optimizer, "method.weight_decay=0.01", "rates={conv1=0, bn1=0, conv2=0, bn2=0}", "backend=torch"]
    trainer = trainer_of(f"digits/{method}", tmp_path, *FROZEN_RUN, *changes)
    parameters = trainer.network.parameters
    before = {name: parameters.values.dense(name).copy() for name in parameters.values}
    statistics = {name: parameters.statistics[name].copy() for name in parameters.statistics}
    trainer.run()
    for name, values in before.items():
        assert np.array_equal(parameters.values.dense(name), values) == (name in parameters.frozen), name
    for name, numbers in statistics.items():
        assert np.array_equal(parameters.statistics[name], numbers) == name.startswith(("bn1", "bn2")), name
    assert parameters.frozen == {
        "conv1.weight",
        "conv2.weight",
        *(f"bn{n}.{part}" for n in (1, 2) for part in ("weight", "bias")),
    }
    assert not parameters.index.keys() & parameters.frozen


def test_a_frozen_layer_cannot_be_made_sparse_by_name(tmp_path):
    with pytest.raises(SparclError, match="conv2 is frozen by the setting rates"):
        trainer_of(
            "digits/sparcl-er-75", tmp_path, *FROZEN_RUN, "rates.conv2=0", 'sparsifier.layers=["conv2", "conv3"]'
        )
