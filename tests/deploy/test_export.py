"""`sparcl export` from a run to a file, ONNX beside it, and pictures that are asked about."""

import json
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

import sparcl
from sparcl.cli.predict import answers
from sparcl.data import load_stream
from sparcl.deploy.onnx import write_onnx
from sparcl.deploy.writer import Preprocessing, write_model
from sparcl.errors import SparclError
from sparcl.graph import GraphBuilder
from sparcl.learning.learned import learned_by
from sparcl.learning.run_directory import RunDirectory
from sparcl.network import Parameters
from sparcl.network.native import NativeNetwork
from sparcl.operations import Add, BatchNorm, Conv, GlobalAveragePool, Linear, MaxPool, Relu


def command(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "sparcl.cli.main", *map(str, arguments)], capture_output=True, text=True, cwd=cwd
    )


def refused(finished, words):
    assert finished.returncode == 1
    assert words in finished.stderr and "Traceback" not in finished.stderr
    assert len(finished.stderr.strip().splitlines()) == 1


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    directory = tmp_path_factory.mktemp("export")
    changes = ["epochs=1", "data.tasks=2", "width=4"]
    options = [word for change in changes for word in ("--set", change)]
    finished = command("run", "digits/sparcl-derpp-90", *options, "--out", "run", "--json", cwd=directory)
    assert finished.returncode == 0, finished.stderr
    return directory


def test_a_run_is_exported(run):
    finished = command("export", "run", "digits.sparcl", "--json", cwd=run)
    assert finished.returncode == 0, finished.stderr
    report = json.loads(finished.stdout)
    assert report["files"] == [{"file": "digits.sparcl", "bytes": (run / "digits.sparcl").stat().st_size}]
    model = sparcl.load(run / "digits.sparcl")
    stream = load_stream("digits")
    assert list(model.classes) == report["classes"] == list(stream.class_names[:4])  # of two tasks
    learned = learned_by(RunDirectory(run / "run"))
    samples = stream.tasks[0].test
    network = NativeNetwork(learned.graph, learned.parameters)
    expected = network.predict(stream.augmentation.test(samples.images, samples.positions))[:, :4]
    found = model.predict(samples.originals(slice(None)))
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.abs(expected).max())


def test_bad_requests_are_refused(run, tmp_path):
    refused(command("export", "run", cwd=run), "Say where to write it")
    refused(command("export", "run", "x.onnx", cwd=run), "--onnx x.onnx")
    refused(command("export", tmp_path, "x.sparcl", cwd=run), "is not a run directory")
    refused(command("export", "run", "run/settings.json/x.sparcl", cwd=run), "could not be written")
    assert not list(run.glob("x.*"))


def test_pictures_that_are_no_longer_those_that_were_learned_from(tmp_path):
    for label, name in enumerate(("cat", "dog")):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(8):
            Image.new("RGB", (8, 8), (100 * label, 9 * number, 0)).save(tmp_path / "photos" / name / f"{number}.png")
    changes = ["data.root=photos", "data.image_size=8", "epochs=1", "model=convnet", "width=4", "batch_size=4"]
    options = [word for change in changes for word in ("--set", change)]
    assert command("run", "folder/er", *options, "--out", "run", "--json", cwd=tmp_path).returncode == 0
    assert command("export", "run", "x.sparcl", cwd=tmp_path).returncode == 0
    (tmp_path / "x.sparcl").unlink()
    (tmp_path / "photos" / "cat").rename(tmp_path / "photos" / "ape")
    refused(command("export", "run", "x.sparcl", cwd=tmp_path), "no longer those")
    assert not (tmp_path / "x.sparcl").exists()


def test_pictures_are_answered_and_damaged_ones_stop_no_other(run, tmp_path):
    command("export", "run", "digits.sparcl", cwd=run)
    digit = load_stream("digits").tasks[0].test.originals([0])[0, 0]
    Image.fromarray(digit).save(tmp_path / "good.png")
    (tmp_path / "bad.png").write_bytes(b"no picture")
    pictures = [tmp_path / name for name in ("bad.png", "good.png")]
    lines = list(answers(run / "digits.sparcl", pictures, 2, as_json=True))
    assert [bad for _, bad in lines] == [True, False]
    answer, model = json.loads(lines[1][0]), sparcl.load(run / "digits.sparcl")
    assert answer["class"] == model.classes[int(model.predict(digit[None]).argmax())]
    assert len(answer["classes"]) == 2
    assert answer["class"] in next(iter(answers(run / "digits.sparcl", pictures[1:2], 1, False)))[0]


def test_onnx_gives_the_same_logits(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    build = GraphBuilder((2, 9, 9))
    x = build("r1", Relu(), build("n1", BatchNorm(), build("c1", Conv(6), build.input)))
    y = build("n3", BatchNorm(), build("sum", Add(), build("c2", Conv(6, bias=True), x), x))  # an affine node
    y = build("c3", Conv(5, kernel=1, stride=2), build("pool", MaxPool(), y))
    graph = build.finish(build("last", Linear(4), build("mean", GlobalAveragePool(), y)))
    generator = np.random.default_rng(0)
    parameters = Parameters(graph)
    parameters.initialise(graph, generator)
    parameters.set_index({"c2.weight": np.arange(0, 324, 5, dtype=np.int32)})
    for name in parameters.statistics:
        parameters.statistics[name][...] = generator.uniform(0.5, 1.5, parameters.statistics[name].shape)
    how = Preprocessing((0.5, 0.5), (0.25, 0.25))
    write_onnx(tmp_path / "m.onnx", graph, parameters, ["a", "b", "c"], how)
    write_model(tmp_path / "m.sparcl", graph, parameters, ["a", "b", "c"], how)
    images = generator.normal(size=(3, 2, 9, 9)).astype(np.float32)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    (found,) = session.run(["logits"], {"images": images})
    np.testing.assert_allclose(found, sparcl.load(tmp_path / "m.sparcl").predict(images), atol=1e-5)
    assert json.loads(session.get_modelmeta().custom_metadata_map["classes"]) == ["a", "b", "c"]


def test_a_method_that_predicts_with_more_than_its_network_is_refused(tmp_path):
    settings = {"dataset": "digits", "method": {"name": "icarl"}}
    directory = tmp_path / "run"
    directory.mkdir()
    (directory / "settings.json").write_text(json.dumps(settings))
    with pytest.raises(SparclError, match="cannot be exported"):
        learned_by(RunDirectory(directory))
