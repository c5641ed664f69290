"""The benchmarks measure what they say: both sides do the same work. No test looks at a time."""

import functools
import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sides
import torch

from sparcl import _engine
from sparcl.bench import dense, memory_job, native_side, onnx_side, tables
from sparcl.bench.contender import Contender
from sparcl.bench.growth import GrowthBase, Ranges
from sparcl.bench.layers import measure_layers, totals
from sparcl.bench.timing import LeftOutError, Times, interleaved, timed, without_the_slow
from sparcl.bench.versus import Protocol, measure
from sparcl.bench.watched import Limits
from sparcl.bench.workload import Workload
from sparcl.compiler import compile_graph, place_apart
from sparcl.data import Augmentation, Samples, Task
from sparcl.errors import SparclError
from sparcl.learning.loop import Loop
from sparcl.learning.settings import resolve
from sparcl.sparsity.layers import default_layers

# PyTorch 2.13 writes beyond its memory in strided 1x1 convolutions of fewer channels.
TINY = Workload("resnet18", width=8, image_size=8, batch=3)
ROOT = Path(__file__).parents[2]
PATIENT = Limits(seconds=250)


def ignore(*_):
    pass


def test_the_dense_module_computes_what_the_engine_computes():
    net = native_side.network(TINY, 0.5)
    module = dense.module_of(TINY.graph())
    stores = (net.parameters.values, net.parameters.statistics)
    numbers = {name: torch.from_numpy(store.dense(name)) for store in stores for name in store}
    missing, unexpected = module.load_state_dict(numbers, strict=False)
    assert not unexpected
    assert all(name.endswith("num_batches_tracked") for name in missing)
    ours, _ = net.forward(TINY.images())
    theirs = module(torch.from_numpy(TINY.images()))
    np.testing.assert_allclose(ours, theirs.detach().numpy(), atol=1e-4)


def test_the_layers_that_training_makes_sparse_are_sparse():
    """The same ones, with as many weights, as in a run of the same network."""
    net = native_side.network(TINY, 0.75)
    settings = resolve({"method": "sgd", "sparsifier": "sparcl", "sparsity": 0.75, "threads": 1, "backend": "native"})
    samples = Samples(np.zeros((4, *net.graph.input_shape), np.uint8), np.arange(4), np.arange(4))
    task = Task(0, range(10), samples, samples, None)
    loop = Loop(settings, TINY.graph(), Augmentation(0, False, (0.0,) * 3, (1.0,) * 3), [task])
    loop.begin_run()
    trained = {name: len(index) for name, index in loop.network.parameters.index.items()}
    assert {name: len(index) for name, index in net.parameters.index.items()} == trained
    assert len(trained) == 16
    assert not native_side.network(TINY, 0.0).parameters.index


def test_our_training_step_learns():
    step = native_side.training_step(native_side.network(TINY, 0.5), TINY)
    first = step()
    assert [step() for _ in range(20)][-1] < first


@pytest.mark.parametrize("variant", ["contiguous", "channels_last", "bf16"])
def test_pytorchs_training_steps_learn(variant):
    """In a process of its own: PyTorch's bf16 crashes on processors that announce what they do not have."""
    with Contender(variant, 1, PATIENT) as contender:
        try:
            found = contender.call(sides.losses, work=TINY, variant=variant, steps=21)
        except LeftOutError:
            assert variant == "bf16", "float32 works everywhere"
            return
    assert found[-1] < found[0]


def test_every_form_of_a_dense_network_predicts_the_same():
    expected = None
    for side in dense.variants("infer", TINY, 1, compiled=False):
        if side.name == "bf16":
            continue
        with Contender(side.title, 1, PATIENT) as contender:
            logits = np.array(contender.call(sides.logits, work=TINY, variant=side.name))
        assert logits.shape == (3, 10)
        expected = logits if expected is None else expected
        np.testing.assert_allclose(logits, expected, atol=1e-4)


def test_the_ratio_is_to_the_fastest_variant_in_float32(monkeypatch):
    seconds = {"Our engine at sparsity 0.5": 0.001, "The good contiguous": 0.004, "The good channels_last": 0.0041}
    monkeypatch.setattr(Contender, "turn", lambda self, count: [seconds.get(self.title, 0.0005)] * count)
    rivals = [sides.good_side(name) for name in ("contiguous", "channels_last", "bf16", "onnxruntime")]
    (row,) = measure("train", TINY, [0.5], Protocol(1, 2), ignore, ignore, rivals)
    assert (row.dense_variant, row.dense_ms, row.native_ms) == ("contiguous", 4.0, 1.0)
    assert row.speedup == pytest.approx(4.0)
    assert row.dense_bf16_ms == row.onnxruntime_ms == 0.5  # beside, but not what counts


def test_ratios_to_our_own_dense_network_and_to_onnxruntime(monkeypatch):
    seconds = {"Our engine at sparsity 0": 0.004, "Our engine at sparsity 0.5": 0.0025, "The good onnxruntime": 0.002}
    monkeypatch.setattr(Contender, "turn", lambda self, count: [seconds.get(self.title, 0.0005)] * count)
    dense_row, row = measure(
        "infer", TINY, [0.0, 0.5], Protocol(1, 2), ignore, ignore, [sides.good_side("onnxruntime")]
    )
    assert dense_row.own_speedup is None and row.own_speedup == pytest.approx(1.6)
    assert dense_row.onnxruntime_share == pytest.approx(2.0) and row.onnxruntime_share == pytest.approx(1.25)
    table = tables.versus([dense_row, row])
    assert table.headings[-2:] == ["ours / onnxruntime", "times faster than our dense"]
    assert [cells[-2:] for cells in table.rows] == [("2.00", "-"), ("1.25", "1.60")]
    assert "times faster than our dense" not in tables.versus([dense_row]).headings


@pytest.mark.parametrize(("times_slower", "shown"), [(3.0, True), (50.0, False)])
def test_bf16_is_left_out_where_it_takes_forever(monkeypatch, times_slower, shown):
    def turn(contender, count):
        return [0.001 * (times_slower if contender.title == "The good bf16" else 1.0)] * count

    monkeypatch.setattr(Contender, "turn", turn)
    notes = []
    rivals = [sides.good_side("contiguous"), sides.good_side("bf16")]
    (row,) = measure("train", TINY, [0.9], Protocol(1, 1), notes.append, ignore, rivals)
    assert (row.dense_bf16_ms is not None) == shown
    assert notes == ([] if shown else [f"{TINY}: bf16 is left out, it takes 50 times as long as float32 here."])


def test_every_side_has_its_turn_in_every_round():
    asked = []

    def turn(name, count):
        asked.append(name)
        return [1.0] * count

    times = interleaved({name: functools.partial(turn, name) for name in "ab"}, 2, ignore, turn_seconds=0.0)
    assert "".join(asked) == "ab" + "ab" + "ba"  # warming up, a round, a round in the other direction
    assert all(len(measured.seconds) == 2 for measured in times.values())


def test_the_first_step_of_a_turn_is_not_measured():
    calls = []
    assert len(timed(lambda: calls.append(None), 3)) == 3
    assert len(calls) == 4


def test_slow_variants_are_dropped():
    fake = {"fast": 1.0, "close": 1.1, "slow": 2.0}
    turns = {name: lambda count, seconds=seconds: [seconds] * count for name, seconds in fake.items()}
    assert list(without_the_slow(turns, ignore, ignore, "")) == ["fast", "close"]


def test_times_have_quartiles():
    times = Times((0.001, 0.002, 0.003, 0.004, 0.005))
    assert times.median_ms == pytest.approx(3)
    assert times.spread_ms == pytest.approx((2, 4))
    assert Times((0.001,)).spread_ms == pytest.approx((1, 1))


def test_buffers_placed_apart_do_not_overlap():
    plan = compile_graph(TINY.graph(), 3, _engine.lanes())
    shared = plan.arena
    assert place_apart(plan.buffers.values()) > shared
    buffers = sorted(plan.buffers.values(), key=lambda buffer: buffer.offset)
    assert all(a.offset + a.floats <= b.offset for a, b in itertools.pairwise(buffers))


def test_layers_are_measured_in_every_pass():
    rows = measure_layers(TINY, [0.5, 0.9], Protocol(1, 1), ignore, ignore)
    convolutions = [node.name for node in TINY.graph() if node.op.role == "convolution"]
    assert len(rows) == 2 * (3 * len(convolutions) - 1)  # nobody needs the gradient of the images
    assert all(row.native_ms > 0 and row.dense_ms > 0 and math.isfinite(row.native_gflops) for row in rows)
    sparse = {row.layer: row.density for row in rows if row.sparsity == 0.9 and row.density < 1}
    assert set(sparse) == set(default_layers(TINY.graph()))
    assert all(density == pytest.approx(0.1, abs=0.01) for density in sparse.values())
    sums = totals(rows)
    assert [total.work for total in sums[:4]] == ["forward", "data gradient", "weight gradient", "all passes"]
    assert sums[3].native_ms == pytest.approx(sum(total.native_ms for total in sums[:3]))


def test_a_part_of_pytorchs_convolutions_is_not_compared_with_all_of_ours():
    rows = measure_layers(Workload("convnet", 4, 8, 2), [0.5], Protocol(1, 1), ignore, ignore)
    cut = [replace(row, dense_ms=None) if row.layer == "conv4" else row for row in rows]
    assert all(total.dense_ms is not None and total.speedup is not None for total in totals(rows))
    assert all(total.dense_ms is None and total.speedup is None for total in totals(cut))


def test_without_torch_only_our_side_is_measured(monkeypatch):
    monkeypatch.setattr(dense, "available", lambda: False)
    notes = []
    (row,) = measure("infer", TINY, [0.9], Protocol(1, 1), notes.append, ignore)
    assert row.native_ms > 0
    assert row.dense_ms is row.speedup is row.dense_variant is row.dense_bf16_ms is None
    assert "needs PyTorch" in notes[0]


def test_onnxruntime_is_measured_beside_pytorch_and_predicts_only():
    pytest.importorskip("onnxruntime")
    rivals = [sides.good_side("contiguous"), onnx_side.rival(TINY, 1)]
    (row,) = measure("infer", TINY, [0.9], Protocol(1, 1), ignore, ignore, rivals)
    assert row.onnxruntime_ms > 0
    assert row.dense_variant == "contiguous"
    assert "onnxruntime ms" in tables.versus([row]).headings
    (row,) = measure("train", TINY, [0.9], Protocol(1, 1), ignore, ignore, rivals[:1])
    assert row.onnxruntime_ms is None
    assert "onnxruntime ms" not in tables.versus([row]).headings


def test_onnxruntime_computes_the_same_dense_network():
    pytest.importorskip("onnxruntime")
    net = native_side.network(TINY, 0.0)
    (logits,) = onnx_side.prediction(TINY, 1)()
    np.testing.assert_allclose(logits, net.predict(TINY.images()), rtol=1e-3, atol=1e-4)


def test_a_batch_of_one_image_with_maps_of_one_pixel_is_refused():
    with pytest.raises(SparclError, match="single pixel"):
        measure("train", Workload(width=8, image_size=8, batch=1), [0.9], Protocol(1, 1), ignore, ignore)


def test_the_own_peak_is_known():
    assert 1 < memory_job.own_peak_mb() < 1e6


def test_the_base_of_growth_is_the_usual_value_or_the_nearest():
    assert GrowthBase.within(Ranges([0.5, 0.9], [16, 64], [8, 32, 128], [1, 2]), "resnet18", 32) == GrowthBase(
        "resnet18", 32, 0.9, 64, 32, 2
    )
    assert GrowthBase.within(Ranges([0.5], [4, 8], [2, 4], [1]), "convnet", 8).width == 8
