"""The numbers on the page are those of the run, and nothing from outside becomes markup."""

import base64
import hashlib
import json
import re
import shutil
import subprocess

import numpy as np
import pytest
from parsed import Parsed
from small_runs import small_run
from synthetic import write_run

from sparcl.files import read_json
from sparcl.learning.run_directory import RunDirectory
from sparcl.report.measures import planned_dense_flops, views
from sparcl.report.page.assemble import page, sections
from sparcl.report.run_record import RunRecord


def made(*paths) -> Parsed:
    return Parsed(page("title", sections([RunRecord.read(path) for path in paths])))


def read(path, name):
    return read_json(path / name)


def events(path, kind):
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["event"] == kind]


def test_headline_numbers_are_those_of_the_run(dense, sparse):
    shown = made(dense, sparse).measures
    for path in (dense, sparse):
        result, costs = read(path, "result.json"), read(path, "costs.json")
        first, shown = dict(shown[:6]), shown[6:]
        assert first["leading"] == f"{result['class_il']['average']:.2f}%"
        assert first["Task-IL"] == f"{result['task_il']['average']:.2f}%"
        assert first["forgetting"] == f"{result['class_il']['forgetting']:.2f}%"
        assert first["time to train"] == f"{costs['seconds']['train']:.1f} s"
        assert first["peak memory"] == f"{costs['peak_memory_mb']:,.0f} MB"
        digits, power = re.fullmatch(r"(\d\.\d\d) \W 10([⁰¹²³⁴⁵⁶⁷⁸⁹]+)", first["FLOPs"]).groups()
        exponent = int("".join(str("⁰¹²³⁴⁵⁶⁷⁸⁹".index(digit)) for digit in power))
        assert float(digits) * 10**exponent == pytest.approx(costs["flops"]["full"]["total"], rel=0.005)


def test_costs_are_compared_with_the_dense_run_of_the_same_method(dense, sparse, tmp_path):
    other = small_run(tmp_path / "other", "digits/er", "epochs=3")
    text = made(other, dense, sparse).text
    ours, theirs = (read(path, "costs.json") for path in (sparse, dense))
    shares = [
        ours["flops"]["full"]["total"] / theirs["flops"]["full"]["total"],
        ours["flops"]["paper"]["total"] / theirs["flops"]["paper"]["total"],
        ours["seconds"]["train"] / theirs["seconds"]["train"],
        ours["peak_memory_mb"] / theirs["peak_memory_mb"],
    ]
    for share in shares:
        assert f"{100 * share:.1f}% of dense" in text


def test_without_a_dense_run_its_flops_are_planned_and_they_are_what_it_would_count(dense, sparse):
    planned = planned_dense_flops(RunRecord.read(sparse), "full")
    assert planned == read(dense, "costs.json")["flops"]["full"]["total"]
    share = read(sparse, "costs.json")["flops"]["full"]["total"] / planned
    assert f"{100 * share:.1f}% of dense (planned)" in made(sparse).text


def test_accuracies_and_forgetting_over_tasks(dense):
    rows = np.array(read(dense, "result.json")["class_il"]["rows"], float)
    table = [row[1:4] for row in made(dense).cells if row and row[0].startswith("derpp") and row[1] in "12"]
    lost = max(rows[0][0], rows[1][0]) - rows[1][0]
    expected = [["1", f"{rows[0][0]:.2f}%", "-"], ["2", f"{rows[1].mean():.2f}%", f"{lost:.2f}%"]]
    assert table[:2] == expected


def test_lines_hold_what_every_epoch_was(sparse):
    lines = [found for found in made(sparse).with_class("stroke") if "data-y" in found]
    epochs = events(sparse, "epoch")
    drawn = [json.loads(line["data-y"]) for line in lines]
    assert [epoch["loss"] for epoch in epochs] in drawn
    assert [100 * epoch["density"] for epoch in epochs] in drawn
    assert [100 * epoch["gradient_density"] for epoch in epochs] in drawn
    first = {epoch["task"]: epoch["samples"] for epoch in epochs if epoch["epoch"] == 0}
    assert [100 * epoch["samples"] / first[epoch["task"]] for epoch in epochs] in drawn
    assert min(epoch["samples"] for epoch in epochs) < first[0]  # some were removed, or this would show nothing


def test_layers_are_shown_at_every_adjustment(sparse):
    text = made(sparse).text
    moves = [event for event in events(sparse, "sparsity") if "layers" in event]
    assert moves
    for move in moves:
        for name, layer in move["layers"].items():
            churn = 100 * (layer["removed"] + layer["grown"]) / layer["active"]
            place = f"{name.removesuffix('.weight')}, task {move['task'] + 1}, epoch {move['epoch'] + 1}"
            assert f"{place}: {100 * layer['density']:.2f}%" in text
            assert f"{place}: {churn:.2f}%" in text


@pytest.mark.parametrize(
    ("preset", "kind"),
    [("digits/derpp", "class_il"), ("digits/packnet", "task_il"), ("permuted-digits/er", "domain_il")],
)
def test_the_confusion_of_a_run_agrees_with_its_accuracies(preset, kind, tmp_path, dense):
    path = dense if preset == "digits/derpp" else small_run(tmp_path / "run", preset, "epochs=1")
    stored, stream = read(path, "confusion.json"), read(path, "stream.json")
    assert (stored["kind"], stored["task"]) == (kind, 1)
    counts, last = np.array(stored["counts"]), read(path, "result.json")[kind]["rows"][-1]
    assert counts.sum() == sum(task["test"] for task in stream["tasks"])
    right = np.diagonal(counts)
    if kind == "domain_il":
        sizes = [task["test"] for task in stream["tasks"]]
        assert right.sum() == pytest.approx(sum(size * share / 100 for size, share in zip(sizes, last, strict=True)))
    else:
        for task, accuracy in zip(stream["tasks"], last, strict=True):
            own = slice(*task["classes"])
            assert 100 * right[own].sum() / counts[own].sum() == pytest.approx(accuracy)
    names = stream["class_names"]
    assert f"{names[0]} taken for {names[0]}: {counts[0, 0]} of {counts[0].sum()}" in made(path).text


def test_the_buffer_shows_how_many_of_each_class_are_kept(dense):
    shown = made(dense)
    counts = [int(element) for element in re.findall(r"keeps (\d+) images of 4 classes", shown.text)]
    assert counts == [30]
    assert len(shown.with_class("strip")) == 4
    assert all(found["src"].startswith("data:image/png;base64,") for tag, found in shown.elements if tag == "img")


HOSTILE = """</title></script><script>alert(1)</script><img src=x onerror="alert(2)">'&"""


def test_nothing_from_outside_becomes_markup(dense, tmp_path):
    path = tmp_path / HOSTILE.replace("/", "_")
    shutil.copytree(dense, path)
    stream, chosen = read(path, "stream.json"), read(path, "settings.json")
    stream["class_names"][0] = HOSTILE
    chosen["method"]["name"] = chosen["dataset"] = HOSTILE
    layers = {HOSTILE: {"active": 1, "density": 1, "removed": 0, "grown": 0}}
    (path / "stream.json").write_text(json.dumps(stream))
    (path / "settings.json").write_text(json.dumps(chosen))
    (path / "costs.json").write_text(json.dumps(RunDirectory(path).costs()))  # without the checksum of the metrics
    with open(path / "metrics.jsonl", "a") as file:
        file.write(json.dumps({"event": "sparsity", "task": 0, "epoch": 0, "layers": layers}) + "\n")
    run = RunRecord.read(path)
    shown = Parsed(page(HOSTILE, sections([run, run], [HOSTILE])))
    assert [tag for tag, _ in shown.elements].count("script") == 1
    assert not [name for _, found in shown.elements for name in found if name.startswith("on")]
    assert all(found["src"].startswith("data:") for tag, found in shown.elements if tag == "img")
    assert HOSTILE in shown.text


def test_the_policy_allows_only_what_is_in_the_page(dense):
    shown = made(dense)
    policy = next(found["content"] for tag, found in shown.elements if "http-equiv" in found)
    for directive, text in (("script-src", "".join(shown.scripts)), ("style-src", "".join(shown.styles))):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert not any("style" in found for _, found in shown.elements)  # they would be refused
    links = [found.get(key, "") for _, found in shown.elements for key in ("src", "href")]
    assert all(link == "" or link.startswith(("data:", "#")) for link in links)


def test_runs_side_by_side_have_names_of_their_own(dense, sparse):
    run, other = RunRecord.read(dense), RunRecord.read(sparse)
    assert [view.name for view in views([run, other])] == ["derpp", "sparcl-derpp-90"]
    again = [view.name for view in views([run, run])]
    assert again == ["derpp seed=0 (dense)", "derpp seed=0 (dense)"]
    assert len(made(*[dense] * 6).with_class("card")) == 0  # many runs stand in a table
    assert len(made(dense, sparse).with_class("card")) == 2


def test_many_tasks_and_classes_stay_one_picture(tmp_path):
    write_run(tmp_path / "big", tasks=10, classes=100, epochs=10)
    shown = made(tmp_path / "big")
    pictures = [found for tag, found in shown.elements if tag == "image"]
    confusion = next(found for found in pictures if len(json.loads(found["data-rows"])) == 100)
    assert json.loads(confusion["data-values"]) == read(tmp_path / "big", "confusion.json")["counts"]
    assert sum(tag == "rect" for tag, _ in shown.elements) < 1000


@pytest.mark.skipif(not shutil.which("chromium"), reason="there is no Chromium here to show the page in")
def test_a_real_browser_shows_the_page_without_a_complaint(dense, sparse, tmp_path):
    target = tmp_path / "report.html"
    target.write_text(page("title", sections([RunRecord.read(dense), RunRecord.read(sparse)])))
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"]
    shown = subprocess.run([*command, target.as_uri()], capture_output=True, text=True, timeout=120, check=True)
    assert "CONSOLE" not in shown.stderr, shown.stderr
    assert "Theme: system" in shown.stdout  # the script ran: its digest is the policy's
