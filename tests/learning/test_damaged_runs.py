"""What a worn-out disk does to a run is noticed: the run continues from what is whole, or is refused in one line."""

import json
import shutil

import numpy as np
import pytest
from runs import Nobody, sparcl, trainer_of

from sparcl import tensor_files
from sparcl.errors import SparclError
from sparcl.files import Directory, read_json
from sparcl.learning import checkpoints
from sparcl.learning.run_directory import RunDirectory
from sparcl.learning.trainer import Stopped
from sparcl.report.live import LiveRuns
from sparcl.report.run_record import RunRecord

TINY = ["data.tasks=2", "epochs=2", "width=4", "threads=1", "buffer_size=20", "batch_size=64", "backend=native"]
EVERY_STEP = [*TINY, "checkpoint.minutes=0"]


class Stopping(Nobody):
    """Stops a run after some steps, and remembers what it was warned of."""

    def __init__(self, steps=0):
        self.left, self.warnings = steps, []

    def stepped(self, *_):
        self.left -= 1
        if self.left == 0:
            self.trainer.request_stop()

    def warned(self, text):
        self.warnings.append(text)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "run"
    trainer_of("digits/sparcl-derpp-90", path, *EVERY_STEP).run()
    return path


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    path = tmp_path_factory.mktemp("stopped") / "run"
    listener = Stopping(12)
    listener.trainer = trainer_of("digits/sparcl-derpp-90", path, *EVERY_STEP, listener=listener)
    with pytest.raises(Stopped):
        listener.trainer.run()
    return path


def resumed(path):
    listener = Stopping()
    trainer_of("digits/sparcl-derpp-90", path, *EVERY_STEP, listener=listener).run()
    return listener.warnings


def flip(path, bit):
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def newest(path):
    return max((path / "checkpoints").iterdir())


def test_a_damaged_newest_checkpoint_is_passed_over_and_said(tmp_path, stopped, whole):
    """Wherever it is damaged: in the header, in the text of the state, in an array."""
    size = newest(stopped).stat().st_size
    for number, place in enumerate((3, 20, 3000, size // 2, size - 1)):
        run = shutil.copytree(stopped, tmp_path / str(number))
        flip(newest(run), 8 * place + 1)
        (warning,) = resumed(run)
        assert "is damaged" in warning and "Continuing from the checkpoint before it." in warning
        assert "\n" not in warning
        assert (run / "metrics.jsonl").read_bytes() == (whole / "metrics.jsonl").read_bytes()
        assert (run / "result.json").read_bytes() == (whole / "result.json").read_bytes()


def test_a_run_without_an_intact_checkpoint_is_refused(tmp_path, stopped):
    run = shutil.copytree(stopped, tmp_path / "run")
    for path in (run / "checkpoints").iterdir():
        flip(path, 8 * (path.stat().st_size - 5))
    with pytest.raises(SparclError, match=r"is damaged .* No other checkpoint can be used") as caught:
        resumed(run)
    assert "\n" not in str(caught.value)


def test_every_flipped_bit_of_a_checkpoint_is_noticed_or_harmless(tmp_path):
    """Arrays of every type, a state with every kind of value. All bits of a real one: benchmarks.state_fuzz."""
    tensors = {
        "weight": np.array([[1.5, -2.0]], np.float32),
        "index": np.array([3, 9], np.int32),
        "order": np.arange(3),
        "present": np.array([True, False]),
        "images": np.zeros((1, 1, 2, 2), np.uint8),
        "empty": np.zeros((0, 4), np.float32),
    }
    state = {"position": {"task": 0, "begun": True, "loss_sum": 0.25}, "names": ["a", "ü"], "left": None}
    path = tmp_path / "0000000001.safetensors"
    with Directory.open(tmp_path) as directory:
        checkpoints.save(directory, 1, tensors, state)
        before = content_of(checkpoints.read(directory, path.name))
        original, noticed = path.read_bytes(), 0
        for bit in range(8 * len(original)):
            flipped = bytearray(original)
            flipped[bit // 8] ^= 1 << bit % 8
            path.write_bytes(flipped)
            try:
                assert content_of(checkpoints.read(directory, path.name)) == before
            except tensor_files.UNREADABLE:
                noticed += 1
    assert noticed > 7 * len(original)  # what is harmless are spaces, and the names of the two seals


def content_of(found):
    tensors, state = found
    state = {name: value for name, value in state.items() if name in ("position", "names", "left")}
    return {name: (str(array.dtype), array.shape, array.tobytes()) for name, array in tensors.items()}, state


def test_flipped_bits_of_a_real_checkpoint_are_noticed_or_harmless(tmp_path, stopped):
    run = shutil.copytree(stopped, tmp_path / "run")
    path = newest(run)
    original = path.read_bytes()
    with Directory.open(path.parent) as directory:
        before = plain(checkpoints.read(directory, path.name))
        for bit in np.random.default_rng(0).integers(0, 8 * len(original), 300).tolist():
            path.write_bytes(original)
            flip(path, bit)
            try:
                assert plain(checkpoints.read(directory, path.name)) == before
            except tensor_files.UNREADABLE:
                continue


def plain(found):
    tensors, state = found
    return {name: (str(array.dtype), array.shape, array.tobytes()) for name, array in tensors.items()}, state


def test_checkpoints_of_version_0_1_0_have_no_seal_and_serve(tmp_path, stopped, whole):
    run = shutil.copytree(stopped, tmp_path / "run")
    for path in (run / "checkpoints").iterdir():
        with open(path, "rb") as file:
            tensors, state = tensor_files.read(file)
        del state["metrics_checksum"]
        with open(path, "wb") as file:
            tensor_files.write_unsealed(file, tensors, {"state": json.dumps(state)})
    for path in run.glob("*.json"):
        path.write_text(json.dumps(read_json(path)))
    assert resumed(run) == []
    assert (run / "metrics.jsonl").read_bytes() == (whole / "metrics.jsonl").read_bytes()


@pytest.mark.parametrize("name", ["settings.json", "tuning.json", "stream.json", "environment.json"])
def test_a_file_that_was_edited_or_damaged_is_refused_in_one_line(tmp_path, stopped, name):
    run = shutil.copytree(stopped, tmp_path / "run")
    directory = RunDirectory(run)
    directory.record_tuning({})
    content = json.loads((run / name).read_text())
    content["seed" if name == "settings.json" else "added"] = 5
    (run / name).write_text(json.dumps(content))
    read = {
        "settings.json": directory.settings,
        "tuning.json": directory.tuning,
        "stream.json": directory.stream,
        "environment.json": directory.environment,
    }[name]
    with pytest.raises(SparclError, match=r"has changed since it was written.*Put it back as it was") as caught:
        read()
    assert "\n" not in str(caught.value)


def test_a_file_may_be_laid_out_anew(tmp_path, stopped):
    """What counts is what it says."""
    run = shutil.copytree(stopped, tmp_path / "run")
    before = RunDirectory(run).settings()
    (run / "settings.json").write_text(json.dumps(json.loads((run / "settings.json").read_text()), sort_keys=True))
    assert RunDirectory(run).settings() == before


def test_metrics_that_changed_are_not_continued(tmp_path, stopped):
    run = shutil.copytree(stopped, tmp_path / "run")
    flip(run / "metrics.jsonl", 8 * 40)
    with pytest.raises(SparclError, match=r"metrics\.jsonl has changed since"):
        resumed(run)


def test_options_of_the_wrong_kind_are_one_line_in_a_report(tmp_path, whole):
    run = shutil.copytree(whole, tmp_path / "run")
    settings = read_json(run / "settings.json")
    settings["method"]["replay_from_task"] = "x"
    (run / "settings.json").write_text(json.dumps(settings))
    with pytest.raises(SparclError, match=r"method\.replay_from_task = 'x' is wrong"):
        RunRecord.read(run)
    refused = sparcl("report", run, "-o", tmp_path / "page.html")
    assert refused.returncode == 1 and len(refused.stderr.splitlines()) == 1 and str(run) in refused.stderr
    shown = LiveRuns(tmp_path).sections()
    assert any("Left out" in section.html and "replay_from_task" in section.html for section in shown)


def test_metrics_of_a_finished_run_that_changed_are_not_reported(tmp_path, whole):
    run = shutil.copytree(whole, tmp_path / "run")
    content = (run / "metrics.jsonl").read_bytes()
    digit = content.index(b'"loss": ') + len(b'"loss": ')
    (run / "metrics.jsonl").write_bytes(content[:digit] + b"7" + content[digit + 1 :])
    assert content[digit : digit + 1] != b"7"
    with pytest.raises(SparclError, match=r"metrics\.jsonl is damaged"):
        RunRecord.read(run)
