"""`sparcl bench` and `sparcl inspect --plan`, run as a user runs them, at tiny sizes. No test looks at a time."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

TINY = ("--width", "4", "--image-size", "8", "--model", "convnet")
SIDES = Path(__file__).parents[1] / "bench"
HIDE_TORCH = (
    "import sys; sys.modules['torch'] = None; import importlib.util as u; find = u.find_spec\n"
    "u.find_spec = lambda name, *rest: None if name == 'torch' else find(name, *rest)\n"
    "from sparcl.cli.main import main; main()"
)


def with_rivals(*rivals: str) -> tuple[str, str]:
    """Start the command with these instead of PyTorch's variants; each is an expression of tests/bench/sides.py."""
    lines = (
        f"import sys; sys.path.append({str(SIDES)!r}); import sides; from sparcl.bench import dense, onnx_side",
        f"dense.variants = lambda *_: [{', '.join(f'sides.{rival}' for rival in rivals)}]",
        "onnx_side.available = lambda: False",
        "from sparcl.cli.main import main; main()",
    )
    return "-c", "\n".join(lines)


def sparcl(*arguments, start=("-m", "sparcl.cli.main")):
    command = [sys.executable, *start, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)


def report_of(finished):
    """JSON and nothing else."""
    assert finished.returncode == 0, finished.stderr
    report = json.loads(finished.stdout)
    assert report["threads"] >= 1 and report["processor"] and report["instruction_set"]
    assert report["date"].count("-") == 2
    return report


def positive(*numbers):
    return all(isinstance(number, float) and math.isfinite(number) and number > 0 for number in numbers)


def document(directory: Path, *sections: str) -> Path:
    path = directory / "page.md"
    marks = "".join(f"<!-- begin {section} -->\nold\n<!-- end {section} -->\n" for section in sections)
    path.write_text(f"before\n{marks}after\n")
    return path


def test_train_measures_every_combination_and_writes_a_section(tmp_path):
    page = document(tmp_path, "train")
    options = ("--batch", "2,4", "--sparsity", ".5,.9", "--repeats", "1", "--no-compile", "--threads", "1")
    tuned = ("--tune", ".3")
    report = report_of(sparcl("bench", "train", *TINY, *options, *tuned, "--into", page, "--json"))
    rows = report["rows"]
    assert [(row["batch"], row["sparsity"]) for row in rows] == [(2, 0.5), (2, 0.9), (4, 0.5), (4, 0.9)]
    for row in rows:
        assert positive(row["native_ms"], row["dense_ms"], row["speedup"])
        assert row["dense_bf16_ms"] is None or positive(row["dense_bf16_ms"])  # left out where it takes forever
        assert positive(*row["native_spread"], *row["dense_spread"])
        assert row["dense_variant"] in ("contiguous", "channels_last")
        assert math.isclose(row["speedup"], row["dense_ms"] / row["native_ms"])
    text = page.read_text()
    assert text.startswith("before\n<!-- begin train -->\n| images | batch | sparsity |")
    assert "| 8x8 | 4 | 0.9 |" in text and "sparcl bench train" in text and report["processor"] in text
    assert "old" not in text and text.endswith("after\n")
    assert text.count("Tuned for this machine") == 4


def test_infer_measures_predictions():
    finished = sparcl("bench", "infer", *TINY, "--batch", "1", "--sparsity", ".9", "--repeats", "1", "--no-compile")
    assert finished.returncode == 0, finished.stderr
    assert "predicting a batch" in finished.stdout and "dense bf16" in finished.stdout


def test_layers_measures_each_convolution_and_sums_up():
    report = report_of(sparcl("bench", "layers", *TINY, "--batch", "2", "--repeats", "1", "--json"))
    assert {row["layer"] for row in report["rows"]} == {"conv1", "conv2", "conv3", "conv4"}
    for row in report["rows"]:
        assert positive(row["native_ms"], row["dense_ms"], row["native_gflops"], row["dense_gflops"])
        assert math.isclose(row["speedup"], row["dense_ms"] / row["native_ms"])
    total = report["totals"][-1]
    assert total["pass"] == "all passes"
    assert math.isclose(total["native_ms"], sum(row["native_ms"] for row in report["rows"]))


def test_memory_measures_three_processes_and_writes_a_section(tmp_path):
    page = document(tmp_path, "memory")
    options = ("--batch", "4", "--steps", "4", "--buffer-size", "20")
    report = report_of(sparcl("bench", "memory", *TINY, *options, "--into", page, "--json"))
    for role in ("native", "torch", "torch_backend"):
        assert report[f"{role}_peak_mb"] >= report[f"{role}_idle_mb"] > 1
    assert math.isclose(report["ratio"], report["torch_peak_mb"] / report["native_peak_mb"])
    assert report["native_peak_mb"] < report["torch_idle_mb"]  # torch alone takes more than all of ours
    assert "| SparCL DER++, our engine |" in page.read_text()


def test_growth_writes_tables_and_a_plot(tmp_path):
    page = document(tmp_path, "growth")
    ranges = ("--sparsity", ".5,.9", "--width", "2,4", "--batch", "2,4", "--threads", "1", "--image-size", "8")
    options = (*ranges, "--model", "convnet", "--repeats", "1", "--into", page, "--json")
    report = report_of(sparcl("bench", "growth", *options, start=with_rivals("good_side()")))
    found = [(point["factor"], point["value"]) for point in report["points"]]
    assert found == [
        *(("sparsity", 0.5), ("sparsity", 0.9), ("width", 2), ("width", 4)),
        *(("batch", 2), ("batch", 4), ("threads", 1)),
    ]
    assert all(positive(point["native_ms"], point["dense_ms"]) for point in report["points"])
    assert report["base"]["width"] == 4
    text = page.read_text()
    assert "(page-growth.svg)" in text and "| width (channels of the first layer) |" in text
    assert (tmp_path / "page-growth.svg").read_text().count("data-name=") == 8


QUICK = ("--batch", "2", "--sparsity", ".9", "--repeats", "2", "--no-compile", "--threads", "1")


@pytest.mark.parametrize("kind", ["train", "infer"])
def test_a_variant_that_dies_is_left_out_with_a_note_in_every_output(tmp_path, kind):
    page = document(tmp_path, kind)
    start = with_rivals("good_side('contiguous')", "bad_side('SIGILL', 0, 'bf16')", "bad_side('raise', 4, 'compiled')")
    untuned = ("--tune", "0") if kind == "train" else ()
    finished = sparcl("bench", kind, *TINY, *QUICK, *untuned, "--into", page, start=start)
    assert finished.returncode == 0, finished.stderr
    for text in (finished.stdout, page.read_text()):
        assert "The one with SIGILL left out: its process died of SIGILL (illegal instruction)." in text
        assert "The one with raise left out: no compiler." in text
        assert "contiguous" in text


def test_if_every_variant_dies_the_table_has_our_side():
    start = with_rivals("bad_side('SIGILL', 0, 'contiguous')", "bad_side('exit', 2, 'bf16')")
    report = report_of(sparcl("bench", "train", *TINY, *QUICK, "--tune", "0", "--json", start=start))
    (row,) = report["rows"]
    assert positive(row["native_ms"])
    assert row["dense_ms"] is row["dense_bf16_ms"] is row["speedup"] is None
    assert report["notes"][-1].endswith("Shown is our side only.")
    assert "The one with exit left out: its process ended with exit code 3." in report["notes"]


def test_a_variant_that_hangs_is_left_out_after_the_time_limit():
    start = with_rivals("good_side()", "bad_side('hang', 1, 'bf16')")
    limit = ("--tune", "0", "--time-limit", "15", "--json")
    report = report_of(sparcl("bench", "train", *TINY, *QUICK, *limit, start=start))
    assert "The one with hang left out: it did not answer within 15 s." in report["notes"]
    assert report["rows"][0]["dense_variant"] == "contiguous"


def test_without_torch_our_numbers_are_shown():
    start = ("-c", HIDE_TORCH)
    quick = ("--batch", "2", "--sparsity", ".9", "--repeats", "1", "--tune", "0")
    finished = sparcl("bench", "train", *TINY, *quick, start=start)
    assert finished.returncode == 0, finished.stderr
    assert "The comparison needs PyTorch" in finished.stdout
    report = report_of(sparcl("bench", "memory", *TINY, "--batch", "4", "--steps", "4", "--json", start=start))
    assert report["native_peak_mb"] > 1
    assert report["torch_peak_mb"] is report["ratio"] is None
    assert "needs PyTorch" in report["notes"][0]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("train", "--sparsity", "1"), "--sparsity 1 is not possible"),
        (("train", "--batch", "some"), "--batch 'some' is not a list of numbers"),
        (("train", "--batch", "2.5"), "--batch 2.5 is not possible"),
        (("train", "--model", "resnet"), "no model called 'resnet'"),
        (("train", "--image-size", "8", "--batch", "1", "--width", "4"), "single pixel"),
        (("train", "--into", "nowhere.md"), "nowhere.md could not be read"),
        (("growth", "--into", __file__), "has no section 'growth'"),
    ],
)
def test_mistakes_get_one_line(arguments, expected):
    finished = sparcl("bench", *arguments)
    assert finished.returncode == 1
    assert len(finished.stderr.splitlines()) == 1
    assert expected in finished.stderr


@pytest.mark.parametrize("command", [[], ["train"], ["infer"], ["layers"], ["memory"], ["growth"]])
def test_every_benchmark_explains_itself(command):
    finished = sparcl("bench", *command, "--help")
    assert finished.returncode == 0
    assert "Usage" in finished.stdout


def test_ctrl_c_ends_a_benchmark_quietly_and_its_processes(tmp_path):
    # Whoever runs the tests in the background makes their children ignore Ctrl-C; here it must be heard.
    hear = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    pid = tmp_path / "pid"
    side = f"Side('contiguous', 'One', sides.press_ctrl_c, {{'pid_file': {str(pid)!r}}})"
    option, code = with_rivals(side)
    finished = sparcl("bench", "train", *TINY, *QUICK, "--tune", "0", start=(option, hear + code))
    assert finished.returncode == 130
    assert finished.stderr == ""
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_the_plan_of_a_dense_network_shows_what_is_computed_after_winograd():
    steps = json.loads(sparcl("inspect", "--plan", "digits/derpp", "--json").stdout)["steps"]
    how = {(step["op"], step["layer"]): step["how"] for step in steps}
    assert "Winograd" in how["convolve", "conv4"] and "Winograd" in how["weight_gradient", "conv4"]
    assert "tiles" in how["convolve", "conv3"] and "Winograd" not in how["convolve", "conv3"]  # it has stride 2


def test_inspect_prints_the_plan():
    finished = sparcl("inspect", "--plan", "digits/sparcl-derpp-90", "--batch", "4")
    assert finished.returncode == 0, finished.stderr
    for text in ("weight_gradient", "relu(norm(a))", "tiles", "Arena for training", "predicting"):
        assert text in finished.stdout
    report = json.loads(sparcl("inspect", "--plan", "digits/sparcl-derpp-90", "--json").stdout)
    assert report["batch"] == 16
    operations = [step["op"] for step in report["steps"]]
    assert operations[0] == "pack" and operations.count("weight_gradient") == 4
    assert operations.count("convolve") == 5  # the first one is not kept, but computed once more for the backward pass
    folded = [step for step in report["inference_steps"] if step["op"] == "convolve"]
    assert len(folded) == 4 and all(step["activation"] == "relu" for step in folded)
    assert 0 < report["memory"]["bytes"] < report["memory"]["bytes_without_sharing"]
    ends = [buffer["offset"] + buffer["bytes"] for buffer in report["buffers"]]
    assert max(ends) == report["memory"]["bytes"]
    wrong = sparcl("inspect", "--batch", "4")
    assert wrong.returncode == 1 and "--plan" in wrong.stderr
