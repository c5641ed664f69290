"""Runs that are old, unfinished or damaged."""

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import write_run

from sparcl.errors import SparclError
from sparcl.files import read_json
from sparcl.learning.run_directory import RunDirectory
from sparcl.report.page.assemble import page, sections
from sparcl.report.run_record import RunRecord


def text_of(path):
    return page("title", sections([RunRecord.read(path)]))


def copied(source, target):
    shutil.copytree(source, target / "run")
    return target / "run"


def test_a_run_of_an_older_version_says_what_is_missing(dense, tmp_path):
    run = copied(dense, tmp_path)
    for name in ("stream.json", "confusion.json"):
        (run / name).unlink()
    shutil.rmtree(run / "checkpoints")
    costs = read_json(run / "costs.json")
    del costs["flops"]
    (run / "costs.json").write_text(json.dumps(costs))
    shown = text_of(run)
    for missing in ("recorded no confusion matrix", "left no checkpoint with a buffer", "counted no FLOPs"):
        assert missing in shown


def test_a_run_that_goes_on_is_shown_as_far_as_it_is(dense, tmp_path):
    run = copied(dense, tmp_path)
    (run / "result.json").unlink()
    (run / "costs.json").unlink()
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    ends = [place for place, line in enumerate(lines) if '"event": "task"' in line]
    # The first task has ended; of the second there is one epoch, and half a line.
    (run / "metrics.jsonl").write_text("".join(lines[: ends[0] + 2]) + lines[-1][:20])
    shown = text_of(run)
    assert "not finished: task 2 of 2, epoch 1 of 3 done" in shown
    accuracy = f"{json.loads(lines[ends[0]])['class_il'][0]:.2f}%"
    assert '<strong data-measure="leading">1 of 2 tasks</strong> learned so far' in shown  # its accuracy is smaller
    assert f'<dt>Class-IL so far</dt><dd data-measure="Class-IL so far">{accuracy}</dd>' in shown
    records = [RunRecord.read(path) for path in (run, *[dense] * 4)]  # as many stand in a table
    assert f"{accuracy} (1 of 2 tasks)" in page("title", sections(records))
    assert "Phase by phase" in shown  # seconds and FLOPs are those of the newest checkpoint
    (run / "metrics.jsonl").unlink()
    assert "No epoch has ended yet" in text_of(run)


def test_joint_training_is_one_task(dense, tmp_path):
    run = copied(dense, tmp_path)
    for name in ("result.json", "costs.json"):
        (run / name).unlink()
    settings = read_json(run / "settings.json")
    (run / "settings.json").write_text(json.dumps(settings | {"method": {"name": "joint"}}))
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    first = [line for line in lines if '"event": "epoch"' in line][:1]
    (run / "metrics.jsonl").write_text("".join(first))
    assert "not finished: task 1 of 1, epoch 1 of 3 done" in text_of(run)


def test_tasks_without_number_are_refused(dense, tmp_path):
    run = copied(dense, tmp_path)
    lines = (run / "metrics.jsonl").read_text().splitlines()
    epoch = json.loads(next(line for line in lines if '"event": "epoch"' in line)) | {"task": 10**12}
    (run / "metrics.jsonl").write_text("\n".join([*lines, json.dumps(epoch)]) + "\n")
    (run / "costs.json").write_text(json.dumps(RunDirectory(run).costs()))  # without the checksum of the metrics
    with pytest.raises(SparclError, match="damaged in line"):
        text_of(run)


@pytest.mark.parametrize("name", ["settings.json", "stream.json", "metrics.jsonl", "result.json", "confusion.json"])
@pytest.mark.parametrize("content", [b"{\n", b"[]\n", b"\xff\n", b'{"event": "epoch", "kind": 3, "class_il": 1}\n'])
def test_a_damaged_file_gets_one_line_with_its_name(dense, tmp_path, name, content):
    run = copied(dense, tmp_path)
    (run / name).write_bytes(content)
    with pytest.raises(SparclError, match=r"damaged|wrong|setting|method") as raised:
        RunRecord.read(run)
    assert len(str(raised.value).splitlines()) == 1


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@pytest.fixture(scope="module", params=["finished", "going on"])
def small(request, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("invented") / "run"
    write_run(path, tasks=2, classes=4, epochs=2, preset="digits/sparcl-derpp-90")
    if request.param == "going on":
        (path / "result.json").unlink()
    return path


@settings(max_examples=40)
@given(st.data())
def test_whatever_is_changed_there_is_a_page_or_one_line(small, data):
    """Replace one value anywhere in one file by anything."""
    target = data.draw(st.sampled_from(sorted(path for path in small.iterdir() if path.is_file())))
    before = target.read_text()
    documents = [json.loads(line) for line in (before.splitlines() if target.suffix == ".jsonl" else [before])]
    inside = documents
    while isinstance(inside, dict | list) and inside:
        key = data.draw(st.sampled_from(list(inside) if isinstance(inside, dict) else range(len(inside))))
        if data.draw(st.booleans()) or not isinstance(inside[key], dict | list) or not inside[key]:
            inside[key] = data.draw(ANYTHING)
            break
        inside = inside[key]
    try:
        target.write_text("".join(json.dumps(document) + "\n" for document in documents))
        assert text_of(small).encode(errors="replace")
    except SparclError as error:
        assert len(str(error).splitlines()) == 1
    finally:
        target.write_text(before)
