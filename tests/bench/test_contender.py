"""Foreign code may crash, hang or eat memory: it is left out with a note that says why, the others are measured."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sides import bad_convolution, bad_make, bad_side, bad_step, good_side, good_step

from sparcl.bench import dense
from sparcl.bench.contender import Contender, Side
from sparcl.bench.layers import measure_layers
from sparcl.bench.memory import measure_memory
from sparcl.bench.timing import LeftOutError, interleaved
from sparcl.bench.versus import Protocol, measure
from sparcl.bench.watched import Limits
from sparcl.bench.workload import Workload
from sparcl.errors import SparclError

TINY = Workload("convnet", width=4, image_size=8, batch=2)
PATIENT = Limits(seconds=120)


def ignore(*_):
    pass


DEATHS = {
    "SIGILL": "its process died of SIGILL (illegal instruction)",
    "SIGKILL": "its process died of SIGKILL (killed, often for want of memory)",
    "exit": "its process ended with exit code 3",
    "raise": "no compiler",
}


@pytest.mark.parametrize("how", DEATHS)
def test_a_side_that_dies_in_the_middle_is_left_out_and_the_others_are_measured(how):
    notes = []
    with Contender("The bad one", 1, PATIENT) as bad, Contender("The good one", 1, PATIENT) as good:
        bad.prepare(bad_step, how=how, after=4)  # fine: one to prepare, two to warm up, the first of the first turn
        good.prepare(good_step)
        measured = interleaved({"bad": bad.turn, "good": good.turn}, 2, notes.append, turn_seconds=0.0)
    assert notes == [f"The bad one left out: {DEATHS[how]}."]
    assert list(measured) == ["good"]
    assert len(measured["good"].seconds) == 2


def test_a_side_that_dies_while_it_is_warmed_up_is_left_out():
    notes = []
    with Contender("The bad one", 1, PATIENT) as bad:
        bad.prepare(bad_step, how="SIGILL", after=1)
        assert interleaved({"bad": bad.turn}, 2, notes.append) == {}
    assert notes == [f"The bad one left out: {DEATHS['SIGILL']}."]


def dies_at_import():
    raise AssertionError("it is not called here")


@pytest.mark.parametrize("moment", ["import", "make", "first step"])
def test_a_side_that_dies_before_its_turns_is_left_out(tmp_path, monkeypatch, moment):
    (tmp_path / "deadly.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(dies_at_import, "__module__", "deadly")
    make, arguments = {
        "import": (dies_at_import, {}),
        "make": (bad_make, {"how": "SIGSEGV"}),
        "first step": (bad_step, {"how": "SIGSEGV", "after": 0}),
    }[moment]
    with Contender("The bad one", 1, PATIENT) as bad, pytest.raises(LeftOutError) as left_out:
        bad.prepare(make, **arguments)
    assert str(left_out.value) == "The bad one left out: its process died of SIGSEGV (segmentation fault)."


def test_a_side_that_hangs_is_ended():
    with Contender("The bad one", 1, Limits(seconds=2)) as bad, pytest.raises(LeftOutError) as left_out:
        bad.prepare(bad_make, how="hang")
    assert str(left_out.value) == "The bad one left out: it did not answer within 2 s."


def test_a_side_that_eats_memory_is_ended():
    limits = Limits(seconds=120, megabytes=300)
    with Contender("The bad one", 1, limits) as bad, pytest.raises(LeftOutError) as left_out:
        bad.prepare(bad_make, how="eat")
    assert str(left_out.value) == "The bad one left out: it needed more than 300 MB."


def test_what_foreign_code_prints_is_no_answer():
    with Contender("The loud one", 1, PATIENT) as loud:
        loud.prepare(bad_step, how="print", after=0)
        assert len(loud.turn(3)) == 3


def test_every_way_to_fail_at_once_leaves_the_good_ones():
    ways = {
        **DEATHS,
        "hang": "it did not answer within 20 s",
        "eat": "it needed more than 500 MB",
    }
    notes = []
    rivals = [*(bad_side(how) for how in ways), good_side()]
    protocol = Protocol(1, 2, limits=Limits(20, 500))
    (row,) = measure("train", TINY, [0.9], protocol, notes.append, ignore, rivals)
    assert set(notes) == {f"The one with {how} left out: {reason}." for how, reason in ways.items()}
    assert row.dense_variant == "contiguous"
    assert row.native_ms > 0


def test_if_every_rival_dies_our_side_is_shown():
    notes = []
    rivals = [bad_side("SIGILL", after=0, name="contiguous"), bad_side("SIGILL", after=2, name="bf16")]
    (row,) = measure("train", TINY, [0.9], Protocol(1, 1), notes.append, ignore, rivals)
    assert row.native_ms > 0
    assert row.dense_ms is row.dense_variant is row.speedup is row.dense_bf16_ms is None
    left_out = f"The one with SIGILL left out: {DEATHS['SIGILL']}."
    assert notes == [left_out] * 2 + [f"{TINY}: no dense float32 variant could be measured. Shown is our side only."]


def test_our_own_side_must_work():
    limits = Limits(seconds=120, megabytes=1)
    with pytest.raises(SparclError, match=r"Our engine at sparsity 0.9 failed: it needed more than 1 MB"):
        measure("train", TINY, [0.9], Protocol(1, 1, limits=limits), ignore, ignore, [])


def test_pytorch_that_dies_in_one_convolution_leaves_the_measurements_before_it(monkeypatch):
    monkeypatch.setattr(dense, "convolution_pass", bad_convolution)
    notes = []
    rows = measure_layers(TINY, [0.9], Protocol(1, 1), notes.append, ignore)
    assert notes == [f"PyTorch left out: {DEATHS['SIGILL']}."]
    known = [(row.layer, row.work) for row in rows if row.dense_ms is not None]
    assert known == [("conv1", "forward"), ("conv1", "weight gradient")]
    assert len(rows) == 11 and all(row.native_ms > 0 for row in rows)


def test_memory_that_pytorch_does_not_get_leaves_it_out():
    notes = []
    limits = Limits(seconds=120, megabytes=160)  # more than ours needs, and less than loading PyTorch does
    found = measure_memory(TINY, 0.9, 4, 10, 1, limits, notes.append, ignore)
    assert found["native_peak_mb"] > 1
    assert found["torch_peak_mb"] is found["torch_backend_peak_mb"] is found["ratio"] is None
    assert "dense DER++ as usually written, PyTorch left out: it needed more than 160 MB." in notes


def test_a_side_is_gone_when_it_is_closed():
    with Contender("One", 1, PATIENT) as one:
        child = one.call(os.getpid)
        os.kill(child, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


KILLED_WHILE_A_SIDE_HANGS = """
import os, signal, sides
from sparcl.bench.contender import Contender
from sparcl.bench.watched import Limits
side = Contender("One", 1, Limits())
print(side.call(os.getpid), flush=True)
side._process.send(b'{"prepare": "sides:bad_make", "arguments": {"how": "hang"}}')
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_side_does_not_outlive_whoever_started_it():
    command = [sys.executable, "-c", KILLED_WHILE_A_SIDE_HANGS]
    killed = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    try:
        side = os.pidfd_open(int(killed.stdout))
    except ProcessLookupError:
        return
    with open(side) as descriptor:
        ended = select.poll()
        ended.register(descriptor, select.POLLIN)
        assert ended.poll(60_000)


def test_arguments_are_checked_by_the_annotations_of_what_is_called():
    side = Side("one", "One", bad_step, {"how": 3, "after": 1})
    with Contender(side.title, 1, PATIENT) as one, pytest.raises(LeftOutError, match="how: it must be a text"):
        one.prepare(side.make, **side.arguments)
