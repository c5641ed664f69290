"""The command line, run as a user runs it."""

import importlib.metadata
import json
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from sparcl.files import read_json

QUICK = ["--set", "data.tasks=2", "--set", "epochs=1", "--set", "width=4", "--quiet"]


def sparcl(*arguments, **options):
    command = [sys.executable, "-m", "sparcl.cli.main", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, **options)


def refused(finished, *expected):
    """Exactly one line that says what is wrong, and a non-zero exit."""
    assert finished.returncode == 1, finished
    assert len(finished.stderr.splitlines()) == 1, finished.stderr
    for text in expected:
        assert text in finished.stderr
    return True


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("runs") / "one"
    finished = sparcl("run", "digits/er", *QUICK, "--out", directory, "--json")
    assert finished.returncode == 0, finished.stderr
    report = json.loads(finished.stdout)
    assert report["directory"] == str(directory)
    assert 0 <= report["result"]["class_il"]["average"] <= report["result"]["task_il"]["average"] <= 100
    assert report["costs"]["peak_memory_mb"] > 0
    assert finished.stderr == ""
    return directory


def test_a_run_directory_holds_what_the_readme_says(finished_run):
    names = {path.name for path in finished_run.iterdir()}
    assert names == {
        *("settings.json", "environment.json", "metrics.jsonl", "result.json", "costs.json", "checkpoints"),
        *("stream.json", "confusion.json"),
    }
    events = [json.loads(line) for line in (finished_run / "metrics.jsonl").read_text().splitlines()]
    assert [event["event"] for event in events] == ["untrained", "epoch", "task", "epoch", "task"]
    result = json.loads((finished_run / "result.json").read_text())
    assert len(result["class_il"]["rows"]) == len(result["task_il"]["rows"]) == 2
    assert result["class_il"]["rows"][1] == events[-1]["class_il"]
    costs = json.loads((finished_run / "costs.json").read_text())
    assert set(costs["seconds"]) == {"train", "evaluate", "checkpoint"}


def test_a_learner_and_a_run_are_not_taken_for_each_other(finished_run, tmp_path):
    shop = tmp_path / "shop"
    assert sparcl("new", shop, "--backbone", "none", "--image-size", "8", "--model", "convnet").returncode == 0
    for command in (("report", shop), ("metrics", shop), ("inspect", shop), ("cost", shop), ("run", "--resume", shop)):
        assert refused(sparcl(*command), "is a learner, not a run", "sparcl status")
    for command in (("status", finished_run), ("undo", finished_run), ("predict", finished_run, shop)):
        assert refused(sparcl(*command), "is a run, not a learner", "sparcl export")


def test_the_version_is_that_of_the_package():
    assert sparcl("--version").stdout == f"sparcl {importlib.metadata.version('sparcl-edge')}\n"


def test_a_finished_run_is_not_run_again(finished_run):
    before = {path: path.stat().st_mtime_ns for path in finished_run.rglob("*")}
    finished = sparcl("run", "--resume", finished_run)
    assert finished.returncode == 0
    assert "already finished" in finished.stdout
    assert {path: path.stat().st_mtime_ns for path in finished_run.rglob("*")} == before


def test_compare_merges_seeds_and_writes_into_a_document(finished_run, tmp_path):
    other = tmp_path / "other"
    sparcl("run", "digits/er", *QUICK, "--set", "seed=5", "--out", other)
    document = tmp_path / "page.md"
    document.write_text("before\n<!-- begin here -->\nold\n<!-- end here -->\nafter\n")
    finished = sparcl("compare", finished_run, other, "--into", document, "--section", "here", "--json")
    (row,) = json.loads(finished.stdout)
    assert row["seeds"] == [0, 5]
    measured = row["measures"]["Class-IL"]
    assert measured["mean"] == pytest.approx(statistics.mean(measured["values"])) and len(measured["values"]) == 2
    cell = f"{measured['mean']:.2f} ± {measured['std']:.2f}"
    text = document.read_text()
    assert text.startswith("before\n<!-- begin here -->\n| run")
    assert text.endswith("<!-- end here -->\nafter\n")
    assert f"| digits/er | 100 | 0, 5 | {cell} |" in text
    assert "old" not in text
    changed = tmp_path / "changed"
    sparcl("run", "digits/er", *QUICK, "--set", "buffer_size=7", "--out", changed)
    both = [row["name"] for row in json.loads(sparcl("compare", other, changed, "--json").stdout)]
    assert both == ["digits/er buffer_size=100", "digits/er buffer_size=7"]
    elsewhere = shutil.copytree(
        other, tmp_path / "elsewhere"
    )  # the same settings, with other pictures, are no other seed
    stored = read_json(elsewhere / "settings.json")
    stored["seed"], stored["data"]["root"] = 6, str(tmp_path)
    (elsewhere / "settings.json").write_text(json.dumps(stored))
    apart = json.loads(sparcl("compare", other, elsewhere, "--json").stdout)
    assert [row["name"] for row in apart] == ["digits/er data.root=None", f"digits/er data.root={tmp_path}"]
    assert refused(sparcl("compare", other, "--into", document, "--section", "there"), "has no section 'there'")
    empty = tmp_path / "empty"
    empty.mkdir()
    skipped = sparcl("compare", empty, other, other)
    assert skipped.returncode == 0
    assert "Left out" in skipped.stderr and "the same run as" in skipped.stderr
    nothing = sparcl("compare", empty)
    assert nothing.returncode == 1
    assert "There is no finished run" in nothing.stderr


def test_inspect_prints_the_papers_network():
    finished = sparcl("inspect", "resnet18", "--json")
    network = json.loads(finished.stdout)
    assert (network["parameters"], network["macs"]) == (11_173_962, 555_422_720)
    table = sparcl("inspect", "convnet", "--width", "4").stdout
    assert "classifier" in table
    assert refused(sparcl("inspect", "resnet"), "no model called 'resnet'")


def test_doctor_and_presets_tell_what_is_there(tmp_path):
    report = json.loads(sparcl("doctor", "--json", env=os.environ | {"SPARCL_DATA": str(tmp_path)}).stdout)
    assert report["instruction_set"] in report["available_instruction_sets"]
    assert "sparcl data get cifar10" in report["missing"]["sparcl run cifar10/..."]
    presets = sparcl("presets").stdout
    assert "tiny_imagenet" in presets and "derpp" in presets and "sparcl" in presets
    settings = json.loads(sparcl("settings", "cifar10/sparcl-derpp-90", "--json").stdout)
    assert (settings["sparsity"], settings["sparsifier"]["name"], settings["method"]["alpha"]) == (0.9, "sparcl", 0.2)
    shown = sparcl("settings", "digits/sparcl-er-75").stdout
    for meaning in ("samples kept for rehearsal", "of the optimizer", "share of the samples that is removed in all"):
        assert meaning in shown


@pytest.mark.parametrize(
    "command",
    [
        [],
        ["run"],
        ["data"],
        ["data", "get"],
        ["compare"],
        ["inspect"],
        ["doctor"],
        ["cost"],
        ["new"],
        ["learn"],
        ["predict"],
        ["report"],
        ["watch"],
    ],
)
def test_every_command_explains_itself(command):
    finished = sparcl(*command, "--help")
    assert finished.returncode == 0
    assert "usage" in finished.stdout.lower()


def test_mistakes_get_one_line(tmp_path, finished_run):
    nothing = env_without_data(tmp_path)
    assert refused(sparcl("run"), "sparcl run digits/derpp")
    assert refused(sparcl("run", "digits/derpp", "--set", "epoch=3"), "did you mean 'epochs'?")
    assert refused(sparcl("run", "digits/derpq"), "did you mean 'derpp'?")
    assert refused(sparcl("run", tmp_path / "none.toml"), "could not be read")
    assert refused(sparcl("run", "--resume", tmp_path), "is not a run directory")
    assert refused(sparcl("run", "digits/er", "--out", finished_run), "already holds a run")
    assert refused(sparcl("run", "digits/er", "--resume", finished_run), "give no preset")
    assert refused(sparcl("run", "digits/er", "--with", tmp_path / "none.py"), "is not a Python file")
    assert refused(sparcl("run", "digits/er", "--set", "data.tasks=9", "--out", tmp_path / "x"), "9")
    assert refused(sparcl("run", "cifar10/er", "--out", tmp_path / "x", env=nothing), "sparcl data get cifar10")
    assert refused(sparcl("run", "folder/er", "--out", tmp_path / "x"), "data.root")
    assert not (tmp_path / "x").exists()
    assert refused(sparcl("run", "folder/er", cwd=tmp_path), "data.root")
    assert not (tmp_path / "runs").exists()


def env_without_data(directory):
    return os.environ | {"SPARCL_DATA": str(directory), "SPARCL_CACHE": str(directory / "cache")}


def test_damaged_run_directories_get_one_line(tmp_path):
    for content in (b"{", b"[]", b'{"method": "er", "width": "wide"}', b"\xff"):
        (tmp_path / "settings.json").write_bytes(content)
        assert refused(sparcl("run", "--resume", tmp_path))


HIDE_VERSION = """
def version(name):
    if name == "torch":
        raise m.PackageNotFoundError(name)
    return installed(name)
m.version = version
"""


HIDE_TORCH = """
import sys; sys.modules["torch"] = None
import importlib.util as u; find = u.find_spec
u.find_spec = lambda name, *rest: None if name == "torch" else find(name, *rest)
"""


def sparcl_without_torch(*arguments, hide=HIDE_TORCH):
    code = hide + "from sparcl.cli.main import main; main()"
    return subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True)


@pytest.mark.parametrize(
    "preset", ["digits/sparcl-derpp-90", "digits/rigl-er-90", "digits/snip-derpp-75", "digits/derpp"]
)
def test_everything_is_learned_without_torch(tmp_path, preset):
    finished = sparcl_without_torch("run", preset, *QUICK[:-1], "--out", tmp_path / "run")
    assert finished.returncode == 0, finished.stderr
    assert "Backend: native" in finished.stderr
    assert json.loads((tmp_path / "run" / "settings.json").read_text())["backend"] == "native"


def test_without_torch_the_torch_backend_says_how_to_install_it(tmp_path):
    asked = ("run", "digits/er", "--set", "backend=torch", "--out", tmp_path / "run")
    assert refused(sparcl_without_torch(*asked), "sparcl-edge[torch]")
    # The same line in doctor's report, where square brackets could be taken for markup.
    hide = HIDE_TORCH + "import importlib.metadata as m; installed = m.version\n" + HIDE_VERSION
    assert "sparcl-edge[torch]" in sparcl_without_torch("doctor", hide=hide).stdout


def test_the_reason_for_a_backend_is_told_and_the_backend_recorded(tmp_path):
    ours = sparcl("run", "digits/er", *QUICK[:-1], "--out", tmp_path / "ours")
    assert "Backend: native (the engine has every layer" in ours.stderr
    torch = sparcl("run", "digits/er", *QUICK[:-1], "--set", "backend=torch", "--out", tmp_path / "torch")
    assert "Backend: torch (as chosen" in torch.stderr
    for name, backend in (("ours", "native"), ("torch", "torch")):
        assert json.loads((tmp_path / name / "settings.json").read_text())["backend"] == backend


def test_a_loss_that_explodes_stops_the_run_with_advice(tmp_path):
    finished = sparcl("run", "digits/sgd", *QUICK, "--set", "method.learning_rate=1e30", "--out", tmp_path / "run")
    assert refused(finished, "Lower method.learning_rate")


def test_a_network_that_ended_up_guessing_is_told_wherever_its_accuracy_stands(finished_run, tmp_path):
    quick = [word for word in QUICK if word != "data.tasks=2"]
    quick.remove("--set")
    run = tmp_path / "run"
    finished = sparcl("run", "digits/sgd", *quick, "--set", "method.learning_rate=1000", "--out", run)
    assert finished.returncode == 0, finished.stderr
    assert "Changed from the preset: method.learning_rate=1000.0, width=4, epochs=1." in finished.stdout
    assert "Warning: digits/sgd: The network ended up guessing" in finished.stdout
    both = sparcl("compare", finished_run, run)
    assert both.stdout.count("Warning: ") == 1 and "Warning: digits/sgd learning_rate=1000.0: " in both.stdout
    warned = [row["warnings"] for row in json.loads(sparcl("compare", finished_run, run, "--json").stdout)]
    assert [len(lines) for lines in warned] == [0, 1]
    page = tmp_path / "page.html"
    assert sparcl("report", run, "-o", page).returncode == 0
    assert "The network ended up guessing" in page.read_text()
    for damaged in ('"x"', "[3]", "null"):
        result = json.loads((run / "result.json").read_text())
        (run / "result.json").write_text(json.dumps(result | {"warnings": json.loads(damaged)}))
        assert "Warning" not in sparcl("compare", run).stdout


def limit_file_size(bytes_allowed):
    """Stands in for a full disk: writes beyond the limit fail inside the operating system."""

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_allowed, bytes_allowed))

    return limit


@pytest.mark.parametrize("bytes_allowed", [0, 100, 3000])
def test_when_the_disk_refuses_there_is_one_line_and_nothing_half_written(tmp_path, bytes_allowed):
    """0: not even the settings fit; 100: the settings do not; 3,000: a checkpoint does not."""
    out = tmp_path / "run"
    finished = sparcl("run", "digits/er", *QUICK, "--out", out, preexec_fn=limit_file_size(bytes_allowed))
    assert refused(finished, "could not be written")
    assert not list(out.rglob("*.partial"))
    assert not list(out.rglob("*.safetensors"))


def test_two_processes_cannot_work_in_one_directory(tmp_path):
    out = tmp_path / "run"
    command = [sys.executable, "-m", "sparcl.cli.main", "run", "digits/er", "--out", str(out), "--quiet"]
    first = subprocess.Popen([*command, "--set", "epochs=100000"])  # it does not end by itself
    while first.poll() is None and not (out / "metrics.jsonl").exists():
        os.sched_yield()
    try:
        assert refused(sparcl("run", "--resume", out), "Another process is working in")
    finally:
        first.kill()
        first.wait()


def test_runs_that_start_at_once_get_directories_of_their_own(tmp_path):
    command = [sys.executable, "-m", "sparcl.cli.main", "run", "digits/er", *QUICK]
    both = [subprocess.Popen([*command, "--set", f"method.learning_rate=0.{n}"], cwd=tmp_path) for n in (1, 2)]
    assert [one.wait() for one in both] == [0, 0]
    stored = [json.loads(path.read_text()) for path in tmp_path.glob("runs/*/settings.json")]
    assert sorted(one["method"]["learning_rate"] for one in stored) == [0.1, 0.2]
    assert len(list(tmp_path.glob("runs/*/result.json"))) == 2


def test_a_tilde_is_the_home_directory(tmp_path):
    home = os.environ | {"HOME": str(tmp_path), "SPARCL_CACHE": str(tmp_path / "cache")}
    for name in ("cat", "dog"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(4):
            Image.new("RGB", (8, 8), (60 * number, 0, 0)).save(tmp_path / "photos" / name / f"{number}.png")
    choices = ("--set", "data.root=~/photos", "--set", "data.image_size=8", "--set", "model=convnet")
    finished = sparcl("run", "folder/er", *choices, *QUICK[2:], "--out", tmp_path / "run", env=home)
    assert finished.returncode == 0, finished.stderr


def damaged_copy(run, target, file, change):
    shutil.copytree(run, target)
    content = read_json(target / file)  # without its seal: as version 0.1.0 wrote it
    change(content)
    (target / file).write_text(json.dumps(content))
    return target


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("result.json", lambda result: result["class_il"].update(average=10**400)),
        ("result.json", lambda result: result["class_il"].update(average=float("inf"))),
        ("costs.json", lambda costs: costs.update(peak_memory_mb=float("nan"))),
        ("settings.json", lambda settings: settings["method"].update(name="\ud800")),
        ("settings.json", lambda settings: settings["method"].update(other=nested(700))),
        ("settings.json", lambda settings: settings.update(dataset="[/x]")),
    ],
)
def test_a_foreign_run_stops_nothing_and_is_shown_as_it_is(finished_run, tmp_path, file, change):
    foreign = damaged_copy(finished_run, tmp_path / "foreign", file, change)
    finished = sparcl("compare", finished_run, foreign)
    assert "Traceback" not in finished.stderr
    if "nested too deeply" not in finished.stderr:
        assert finished.returncode == 0
        assert ("is damaged" in finished.stderr) == (file != "settings.json")
        assert "digits/er" in finished.stdout


def test_a_hostile_settings_file_gets_one_line(tmp_path):
    for content in ("a = " + "[" * 5000, "seed = " + "1" * 5000):
        (tmp_path / "x.toml").write_text(content)
        assert refused(sparcl("run", tmp_path / "x.toml"), "is not a valid TOML file")


def test_tables_are_never_cut(finished_run):
    """At 80 columns every name and number is whole; a run's own table fits without wrapping."""
    narrow = os.environ | {"COLUMNS": "80"}
    shown = sparcl("compare", finished_run, env=narrow).stdout
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    for command in (["inspect", "resnet18"], ["presets"], ["settings", "digits/derpp"]):
        assert "…" not in sparcl(*command, env=narrow).stdout


def test_impossible_wishes_get_one_line_and_leave_nothing_behind(tmp_path):
    out = tmp_path / "run"
    arguments = ("run", "digits/er", "--out", out, "--set")
    assert refused(sparcl(*arguments, "threads=99999"), "threads")
    assert refused(sparcl(*arguments, "buffer_size=10000000000000"), "at most 10000000")
    assert refused(sparcl(*arguments, "method.learning_rate=-1"), "more than 0")
    assert refused(sparcl(*arguments, "sparsity=0.9"), "sparsifier=sparcl")
    assert refused(sparcl(*arguments, "model=resnet18", "--set", "batch_size=1"), "at least 2")
    assert refused(sparcl("doctor", env=os.environ | {"SPARCL_ISA": "bogus"}), "SPARCL_ISA=bogus is not available")
    assert not out.exists()


def test_a_last_batch_of_one_joins_the_one_before(tmp_path):
    """289 images in batches of 32 leave one; ResNet on 8x8 images ends in maps of one pixel."""
    options = ["--set", "model=resnet18", "--set", "batch_size=32", "--set", "data.tasks=1"]
    finished = sparcl("run", "digits/sgd", *QUICK, *options, "--out", tmp_path / "run")
    assert finished.returncode == 0, finished.stderr
    epoch = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[1])
    assert epoch["steps"] == 9
