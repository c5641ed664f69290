"""The benchmarks measure what they say: both sides do the same work. No test looks at a time."""

import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from sparcl import _engine
from sparcl.bench import dense, memory_child, native_side, onnx_side, tables
from sparcl.bench.growth import Base, Ranges
from sparcl.bench.layers import measure_layers, totals
from sparcl.bench.memory import Job
from sparcl.bench.timing import Times, interleaved, without_the_slow
from sparcl.bench.versus import Protocol, measure
from sparcl.bench.workload import Workload
from sparcl.cli.plan import TILE_SHAPES
from sparcl.compiler import compile_graph, place_apart
from sparcl.errors import SparclError
from sparcl.sparsity.layers import default_layers

# PyTorch 2.13 writes beyond its memory in strided 1x1 convolutions of fewer channels.
TINY = Workload("resnet18", width=8, image_size=8, batch=3)
ROOT = Path(__file__).parents[2]


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
    net = native_side.network(TINY, 0.75)
    assert set(net.parameters.index) == {f"{name}.weight" for name in default_layers(net.graph)}
    for name, index in net.parameters.index.items():
        size = net.parameters.values.specs[name].size
        assert len(index) == size - round(0.75 * size)
    assert not native_side.network(TINY, 0.0).parameters.index


def test_both_training_steps_learn():
    ours = native_side.training_step(native_side.network(TINY, 0.5), TINY)
    first = ours()
    assert [ours() for _ in range(20)][-1] < first
    for name, step in dense.training_steps(TINY, compiled=False, note=ignore).items():
        step()
        assert name in ("contiguous", "channels_last", "bf16")


def test_the_frozen_network_still_predicts():
    notes = []
    steps = dense.prediction_steps(TINY, compiled=False, note=notes.append)
    assert {"contiguous", "channels_last", "frozen"} <= set(steps), notes
    for step in steps.values():
        assert step().shape == (3, 10)


def test_a_variant_that_does_not_work_is_left_out_with_a_note(monkeypatch):
    def no_compiler(*_, **__):
        raise RuntimeError("no compiler\nand more lines")

    monkeypatch.setattr(torch, "compile", no_compiler)
    notes = []
    rows = measure("train", TINY, [0.5, 0.9], Protocol(1, 1), notes.append, ignore)
    assert "PyTorch's variant 'compiled' is left out, it does not work here: no compiler" in notes
    assert {row.dense_variant for row in rows} <= {"contiguous", "channels_last"}
    assert all(math.isclose(row.speedup, row.dense_ms / row.native_ms) for row in rows)
    assert all(row.native_spread[0] <= row.native_ms <= row.native_spread[1] for row in rows)


@pytest.mark.parametrize(("milliseconds", "shown"), [(0.0, True), (1e9, False)])
def test_bf16_is_left_out_where_it_takes_forever(monkeypatch, milliseconds, shown):
    monkeypatch.setattr("sparcl.bench.versus.one_ms", lambda step: milliseconds)
    notes = []
    (row,) = measure("train", TINY, [0.9], Protocol(1, 1, compiled=False), notes.append, ignore)
    assert (row.dense_bf16_ms is not None) == shown
    assert any("bf16 is left out" in note for note in notes) != shown


def test_every_step_has_its_turn_in_every_round():
    calls = []
    steps = {name: lambda name=name: calls.append(name) for name in "ab"}
    times = interleaved(steps, 2, turn_seconds=0.0)
    assert "".join(calls) == "aabb" + "aabb" + "bbaa"  # warming up, a round, a round in the other direction
    assert all(len(measured.seconds) == 2 for measured in times.values())


def test_slow_variants_are_dropped(monkeypatch):
    fake = {"fast": 1.0, "close": 1.1, "slow": 2.0}
    monkeypatch.setattr(
        "sparcl.bench.timing.interleaved", lambda steps, *_: {name: Times((fake[name],)) for name in steps}
    )
    assert list(without_the_slow(dict.fromkeys(fake, ignore), ignore, "")) == ["fast", "close"]


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
    convolutions = [node.name for node in TINY.graph() if node.op == "conv"]
    assert len(rows) == 2 * (3 * len(convolutions) - 1)  # nobody needs the gradient of the images
    assert all(row.native_ms > 0 and row.dense_ms > 0 and math.isfinite(row.native_gflops) for row in rows)
    sums = totals(rows)
    assert [total.work for total in sums[:4]] == ["forward", "data gradient", "weight gradient", "all passes"]
    assert sums[3].native_ms == pytest.approx(sum(total.native_ms for total in sums[:3]))


def test_without_torch_only_our_side_is_measured(monkeypatch):
    monkeypatch.setattr(dense, "available", lambda: False)
    notes = []
    (row,) = measure("infer", TINY, [0.9], Protocol(1, 1), notes.append, ignore)
    assert row.native_ms > 0
    assert row.dense_ms is row.speedup is row.dense_variant is row.dense_bf16_ms is None
    assert "needs PyTorch" in notes[0]


def test_onnxruntime_is_measured_beside_pytorch_and_predicts_only():
    pytest.importorskip("onnxruntime")
    (row,) = measure("infer", TINY, [0.9], Protocol(1, 1, compiled=False), ignore, ignore)
    assert row.onnxruntime_ms > 0
    assert row.dense_variant in ("contiguous", "channels_last", "frozen")
    assert "onnxruntime ms" in tables.versus([row])
    (row,) = measure("train", TINY, [0.9], Protocol(1, 1, compiled=False), ignore, ignore)
    assert row.onnxruntime_ms is None
    assert "onnxruntime" not in tables.versus([row])


def test_onnxruntime_computes_the_same_dense_network():
    pytest.importorskip("onnxruntime")
    net = native_side.network(TINY, 0.0)
    (logits,) = onnx_side.prediction(TINY, 1)()
    np.testing.assert_allclose(logits, net.predict(TINY.images()), rtol=1e-3, atol=1e-4)


def test_a_batch_of_one_image_with_maps_of_one_pixel_is_refused():
    with pytest.raises(SparclError, match="single pixel"):
        measure("train", Workload(width=8, image_size=8, batch=1), [0.9], Protocol(1, 1), ignore, ignore)


def test_a_job_survives_the_way_to_the_child():
    job = Job("native", TINY, 0.9, 4, 20, 1)
    assert Job.from_json(job.to_json()) == job


def test_the_own_peak_is_known():
    assert 1 < memory_child.own_peak_mb() < 1e6


def test_the_base_of_growth_is_the_usual_value_or_the_nearest():
    assert Base.within(Ranges([0.5, 0.9], [16, 64], [8, 32, 128], [1, 2]), "resnet18", 32) == Base(
        "resnet18", 32, 0.9, 64, 32, 2
    )
    assert Base.within(Ranges([0.5], [4, 8], [2, 4], [1]), "convnet", 8).width == 8


def test_inspect_knows_the_engines_tiles():
    header = (ROOT / "native" / "kernels" / "kernels.h").read_text()
    (listed,) = re.findall(r"tile_shapes\[tile_shape_count\] = \{(.*)\};", header)
    assert tuple(f"{rows}x{columns}" for rows, columns in re.findall(r"\{(\d+), (\d+)\}", listed)) == TILE_SHAPES
