"""The metrics for other programs: the same numbers, in their formats."""

import csv
import io
import json
import struct

import pytest

from sparcl.learning.run_directory import RunDirectory
from sparcl.report.scalars import as_csv, scalars
from sparcl.report.tensorboard import crc32c, event_file


def test_csv_holds_the_numbers_of_the_run(sparse):
    rows = list(csv.DictReader(io.StringIO(as_csv(scalars(RunDirectory(sparse))))))
    events = [json.loads(line) for line in (sparse / "metrics.jsonl").read_text().splitlines()]
    epochs = [event for event in events if event["event"] == "epoch"]
    losses = [row for row in rows if row["metric"] == "train/loss"]
    assert [float(row["value"]) for row in losses] == [epoch["loss"] for epoch in epochs]
    assert [int(row["step"]) for row in losses] == [
        sum(epoch["steps"] for epoch in epochs[: place + 1]) for place in range(len(epochs))
    ]
    (last,) = [event for event in events if event["event"] == "task" and event["task"] == 1]
    for place, accuracy in enumerate(last["class_il"]):
        found = [row for row in rows if row["metric"] == f"class_il/task {place + 1}" and row["task"] == "2"]
        assert [float(row["value"]) for row in found] == [accuracy]
        assert int(found[0]["step"]) == sum(epoch["steps"] for epoch in epochs)
    layers = {name for event in events if event["event"] == "sparsity" for name in event.get("layers", {})}
    assert {f"layers/{name}/density" for name in layers} <= {row["metric"] for row in rows}


def test_crc32c_of_known_texts():
    """The check value of the catalogue of CRCs, and the vectors of RFC 3720."""
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43


def test_tensorboard_reads_the_same_numbers(sparse, tmp_path):
    loader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_file_loader", reason="tensorboard is not installed"
    )
    numbers = scalars(RunDirectory(sparse))
    path = tmp_path / "events.out.tfevents.sparcl"
    path.write_bytes(event_file(numbers, wall_time=1234.5))
    first, *events = loader.RawEventFileLoader(str(path)).Load()
    assert b"brain.Event:2" in first
    read = list(loader.EventFileLoader(str(path)).Load())[1:]
    assert len(events) == len(read) == len(numbers)
    for event, number in zip(read, numbers, strict=True):
        (value,) = event.summary.value
        assert (event.step, value.tag, event.wall_time) == (number.step, number.metric, 1234.5)
        assert value.tensor.float_val[0] == struct.unpack("<f", struct.pack("<f", number.value))[0]
