"""The genetic search, the tuner and its cache. No times are asserted, only what is done with them."""

import json
import subprocess
import sys

import numpy as np
import pytest
import typer

from sparcl.cli import tune as tune_command
from sparcl.graph import build_model
from sparcl.network import build_network
from sparcl.tuning import Tuned, TuningCache, apply, tune
from sparcl.tuning.genetic import enumerate_all, evolve
from sparcl.tuning.search import CHANNELS, GENERATIONS, TILES


def never() -> bool:
    return False


def test_the_genetic_search_finds_the_cheapest_of_an_ordered_space():
    best, found = (7, 2, 1), []
    for seed in range(10):
        genome = evolve(
            (10, 8, 2),
            [(0, 0, 0)],
            lambda g: sum(abs(a - b) for a, b in zip(g, best, strict=True)),
            generations=30,
            generator=np.random.default_rng(seed),
            out_of_time=never,
        )
        found.append(genome)
    assert found.count(best) >= 9


def test_the_genetic_search_is_seeded_and_measures_nothing_twice():
    def run():
        asked = []

        def cost(genome):
            asked.append(genome)
            return float(genome[0])

        best = evolve((50,), [(25,)], cost, 5, np.random.default_rng(3), never)
        return best, asked

    first, second = run(), run()
    assert first == second
    assert len(set(first[1])) == len(first[1])


def test_without_time_the_starting_point_is_the_answer():
    assert evolve((5, 5), [(3, 3)], lambda g: -sum(g), 9, np.random.default_rng(0), lambda: True) == (3, 3)


def landscape(seed: int):
    """Times as convolutions have them: each tile has its best block of channels, further away it gets slower."""
    random = np.random.default_rng(seed)
    tile, best = random.uniform(1.0, 1.3, len(TILES)), random.uniform(0, len(CHANNELS), len(TILES))
    slope = random.uniform(0.01, 0.06)
    return lambda genome: tile[genome[0]] * (1 + slope * abs(genome[1] - best[genome[0]]))


def test_the_baseline_measures_every_choice_once_and_takes_the_best():
    genes, asked = (len(TILES), len(CHANNELS) + 1), []
    costs = np.random.default_rng(0).permutation(genes[0] * genes[1]).reshape(genes)

    def cost(genome):
        asked.append(genome)
        return float(costs[genome])

    best = enumerate_all(genes, [(2, 3)], cost, 0, np.random.default_rng(0), never)
    assert costs[best] == 0
    assert asked[0] == (2, 3) and sorted(asked) == list(np.ndindex(*genes)) and len(asked) == 75
    assert enumerate_all((5, 5), [(3, 3)], lambda g: -sum(g), 9, np.random.default_rng(0), lambda: True) == (3, 3)


def test_the_genetic_search_comes_close_to_the_baseline_with_a_third_of_the_measurements():
    """On made-up times. On real ones: python -m benchmarks.tuning_search."""
    genes, losses, measured = (len(TILES), len(CHANNELS) + 1), [], []
    for seed in range(50):
        time, asked = landscape(seed), []

        def cost(genome, time=time, asked=asked):
            asked.append(genome)
            return time(genome)

        arguments = (genes, [(0, 7)], cost, GENERATIONS, np.random.default_rng(seed), never)
        found, best = evolve(*arguments), enumerate_all(genes, [], time, 0, np.random.default_rng(0), never)
        losses.append(time(found) / time(best) - 1)
        measured.append(len(asked))
    assert np.mean(losses) < 0.04 and max(measured) <= 75 // 3


@pytest.fixture
def network():
    """Of its dense layers the first is narrow, the third strided, the fourth neither; the second is sparse."""
    net = build_network(build_model("convnet", (1, 8, 8), 10, 8), np.random.default_rng(0), 1, "native")
    net.parameters.set_index({"conv2.weight": np.arange(0, 8 * 8 * 9, 2, dtype=np.int32)})
    return net


def test_tuning_changes_no_result_and_leaves_no_trace(network, monkeypatch):
    """Whatever is not the default is made to look faster, so that every pass gets other knobs."""
    images = np.random.default_rng(1).normal(size=(8, 1, 8, 8)).astype(np.float32)
    before = network.predict(images)
    network.prepare()
    layers = network.convolutions
    defaults = {name: network.engine.knobs(layer) for name, layer in layers.items()}

    def milliseconds(bench, name, op, repeats=3):
        return 1.0 - 0.5 * (network.engine.knobs(layers[name]) != defaults[name])

    monkeypatch.setattr("sparcl.tuning.search._Bench.milliseconds", milliseconds)
    gradients, statistics = network.parameters.gradients.flat.copy(), network.parameters.statistics.flat.copy()
    results = tune(network, 8, seconds=30)
    assert np.array_equal(network.parameters.gradients.flat, gradients)
    assert np.array_equal(network.parameters.statistics.flat, statistics)
    assert {name for tuned in results for name in tuned.layers} == {"conv1", "conv2", "conv3"}  # Winograd has no knobs
    apply(network, results)
    changed = {name for name, layer in layers.items() if network.engine.knobs(layer)[0] != defaults[name][0]}
    assert changed == {"conv1", "conv2", "conv3"}
    np.testing.assert_allclose(network.predict(images), before, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("gained", "taken"), [(0.5, True), (0.01, False)])
def test_what_is_clearly_faster_is_used_and_what_is_hardly_faster_is_not(network, monkeypatch, gained, taken):
    layer = network.convolutions["conv2"]
    network.prepare()
    default = network.engine.knobs(layer)[2]
    target = (4 if default[0] != 4 else 6, not default[1])

    def milliseconds(bench, name, op, repeats=3):
        return 1.0 - gained * (bench.network.engine.knobs(bench.network.convolutions[name])[2] == target)

    monkeypatch.setattr("sparcl.tuning.search._Bench.milliseconds", milliseconds)
    results = tune(network, 8, seconds=30)
    assert network.engine.knobs(layer)[2] == default  # not applied yet
    apply(network, results)
    assert network.engine.knobs(layer)[2] == (target if taken else default)


def test_what_is_known_is_not_searched_again(network):
    results = tune(network, 8, seconds=30)
    again = tune(network, 8, seconds=30, known={tuned.key: tuned for tuned in results})
    assert {t.key: t.knobs for t in again} == {t.key: t.knobs for t in results}
    assert {t.key: t.tuned_ms for t in again} == {t.key: t.tuned_ms for t in results}  # remembered, not measured


def test_the_cache_keeps_and_adds(tmp_path):
    cache = TuningCache(tmp_path, "a processor")
    one = Tuned("convolve a", ("x",), (3, 16), 2.0, 1.0)
    two = Tuned("weight_gradient b", ("y",), (4, True), 2.0, 1.5)
    cache.store([one])
    cache.store([two])
    assert cache.load() == {one.key: one, two.key: two}
    assert TuningCache(tmp_path, "another processor").load() == {}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[1]",
        '{"found": [{"key": "convolve a", "layers": [], "knobs": [3], "default_ms": 1, "tuned_ms": 1}]}',
        '{"found": [{"key": "convolve a", "layers": [], "knobs": [-3, 4], "default_ms": 1, "tuned_ms": 1}]}',
        '{"found": [{"key": "convolve a", "layers": [], "knobs": ["3", 4], "default_ms": 1, "tuned_ms": 1}]}',
        '{"found": [{"key": "weight_gradient a", "layers": [], "knobs": [3, 4], "default_ms": 1, "tuned_ms": 1}]}',
        '{"found": [{"key": "", "layers": [], "knobs": [3, 4], "default_ms": 1, "tuned_ms": 1}]}',
        '{"found": [{"key": "convolve a", "layers": [], "knobs": [8, 4], "default_ms": 1, "tuned_ms": 1}]}',
        '{"found": [{"key": "convolve a", "layers": [], "knobs": [3, 0], "default_ms": 1, "tuned_ms": 1}]}',
        '{"found": [{"key": "convolve a", "layers": [], "knobs": [3, 4], "default_ms": 1%s, "tuned_ms": 1}]}'
        % ("0" * 400),
    ],
)
def test_a_damaged_cache_counts_as_empty(tmp_path, content):
    cache = TuningCache(tmp_path, "a processor")
    cache.path.write_text(content)
    assert cache.load() == {}


def test_the_command_tunes_and_remembers(tmp_path):
    command = [sys.executable, "-m", "sparcl.cli.main", "tune", "digits/sparcl-derpp-90", "--set", "width=8"]
    environment = {"SPARCL_CACHE": str(tmp_path), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    run = subprocess.run([*command, "--seconds", "1"], capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
    assert "Tuned for this machine" in run.stdout
    stored = next(tmp_path.glob("tuning-*.json"))
    assert json.loads(stored.read_text())["found"]


def test_what_was_found_before_an_interrupt_is_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SPARCL_CACHE", str(tmp_path))
    densities = []

    def interrupted(network, *_, keep, **__):
        for name, index in network.parameters.index.items():
            node = network.graph[name.removesuffix(".weight")]
            densities.append(len(index) / network.graph.parameters_of(node)[0].size)
        keep(Tuned("convolve a kind", ("a",), (3, 16), 2.0, 1.0))
        raise KeyboardInterrupt

    monkeypatch.setattr(tune_command, "search", interrupted)
    with pytest.raises(typer.Exit) as ended:
        tune_command.tune("cifar10/sparcl-derpp-90", change=["width=8", "sparsifier.distribution=erk"])
    assert ended.value.exit_code == 130
    assert "Stopped" in capsys.readouterr().err
    (stored,) = tmp_path.glob("tuning-*.json")
    assert "convolve a kind" in stored.read_text()
    assert max(densities) > 2 * min(densities)  # the run's own sparsities, which differ from layer to layer
