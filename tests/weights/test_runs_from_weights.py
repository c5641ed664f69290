"""Runs that start from weights, and go on without the file that they started from."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from networks import ResNet18, trained
from safetensors.numpy import load_file

import sparcl
from sparcl.data import load_stream
from sparcl.deploy.writer import Preprocessing, write_model
from sparcl.errors import SparclError
from sparcl.graph import build_model
from sparcl.learning.run_directory import RunDirectory
from sparcl.learning.settings import fingerprint, from_preset, resolve, with_changes
from sparcl.learning.trainer import Stopped, Trainer
from sparcl.network import Parameters

SMALL = ("data.tasks=2", "epochs=2", "model=resnet18", "width=4", "threads=1", "buffer_size=30", "tuning_seconds=0")


class Listener:
    """Keeps what it is told; asks to stop after some steps."""

    def __init__(self, steps=0):
        self.left, self.notes, self.trainer = steps, [], None

    def noted(self, text):
        self.notes.append(text)

    def stepped(self, *_):
        self.left -= 1
        if self.left == 0:
            self.trainer.request_stop()

    def started(self, *_): ...
    def evaluated(self, *_): ...
    def warned(self, *_): ...


def trainer_of(path, preset="digits/derpp", *changes, weights=None, listener=None):
    """A new run, or the one that is there, as `sparcl run` and `--resume` set it up."""
    if path.exists():
        directory = RunDirectory(path)
        settings = directory.settings()
    else:
        values = with_changes(from_preset(preset), [*SMALL, *changes])
        settings = resolve({**values, "weights": weights} if weights else values)
        directory = RunDirectory.create(path, settings, {})
    stream = load_stream(settings.dataset, order_seed=settings.seed, **vars(settings.data))
    listener = listener or Listener()
    listener.trainer = Trainer(settings, stream, directory, listener)
    return listener.trainer


@pytest.fixture
def network():
    return trained(ResNet18(channels=1, classes=1000))


@pytest.fixture
def file(tmp_path, network):
    torch.save(network.state_dict(), tmp_path / "weights.pt")
    return tmp_path / "weights.pt"


def final(path):
    """Everything that was learned, and how."""
    newest = max((path / "checkpoints").glob("*.safetensors"))
    tensors = {name: (tensor.dtype, tensor.tobytes()) for name, tensor in load_file(newest).items()}
    return tensors, (path / "metrics.jsonl").read_bytes(), (path / "result.json").read_bytes()


def test_the_network_begins_with_the_weights_and_a_classifier_of_its_own(tmp_path, file, network):
    fresh = trainer_of(tmp_path / "fresh").network.parameters
    listener = Listener()
    trainer = trainer_of(tmp_path / "run", weights=file, listener=listener)
    values, statistics = trainer.network.parameters.values, trainer.network.parameters.statistics
    theirs = network.state_dict()
    assert np.array_equal(values["stem.conv.weight"], theirs["conv1.weight"].numpy())
    assert np.array_equal(values["stage3.block1.shortcut.conv.weight"], theirs["layer3.0.downsample.0.weight"].numpy())
    assert np.array_equal(statistics["stage4.block2.bn2.running_var"], theirs["layer4.1.bn2.running_var"].numpy())
    assert np.array_equal(values["classifier.weight"], fresh.values["classifier.weight"])
    trainer.run()
    assert listener.notes[:2] == [
        f"Weights of {file}: 100 tensors were loaded by the names of torchvision's ResNet.",
        f"Weights of {file}: classifier keeps its initial values: "
        "classifier.weight is 1000x32 in the file and 4x32 here.",
    ]


def test_the_first_masks_keep_the_largest_weights(tmp_path, file, network):
    trainer = trainer_of(tmp_path / "run", "digits/sparcl-derpp-90", weights=file)
    assert trainer.settings.sparsifier.options["initial_mask"] == "magnitude"
    trainer.sparsifier.begin_run()
    parameters = trainer.network.parameters
    weight = network.layer2[1].conv1.weight.detach().numpy().ravel()
    index = parameters.index["stage2.block2.conv1.weight"]
    assert len(index) == round(0.1 * weight.size)
    assert np.abs(weight[index]).min() >= np.abs(np.delete(weight, index)).max()
    assert np.array_equal(parameters.values["stage2.block2.conv1.weight"], weight[index])
    chosen = trainer_of(tmp_path / "random", "digits/sparcl-derpp-90", "sparsifier.initial_mask=random", weights=file)
    assert chosen.settings.sparsifier.options["initial_mask"] == "random"
    assert trainer_of(tmp_path / "fresh", "digits/sparcl-derpp-90").settings.sparsifier.options["initial_mask"] == (
        "random"
    )


@pytest.mark.parametrize("preset", ["digits/derpp", "digits/sparcl-derpp-90", "digits/snip-er-80"])
@pytest.mark.parametrize("backend", ["native", "torch"])
def test_a_run_goes_on_without_its_file_and_ends_the_same(tmp_path, file, preset, backend):
    trainer_of(tmp_path / "whole", preset, f"backend={backend}", weights=file).run()
    stopped = trainer_of(tmp_path / "stopped", preset, f"backend={backend}", weights=file, listener=Listener(3))
    with pytest.raises(Stopped):
        stopped.run()
    file.unlink()
    resumed = trainer_of(tmp_path / "stopped")
    resumed.run()
    assert final(tmp_path / "stopped") == final(tmp_path / "whole")


def test_a_run_that_was_killed_in_its_first_moment_needs_its_file_once_more(tmp_path, file):
    trainer_of(tmp_path / "whole", weights=file).run()
    killed = trainer_of(tmp_path / "killed", weights=file)
    (killed.directory.path / "checkpoints").mkdir()  # empty: killed before the first checkpoint was there
    content = file.read_bytes()
    file.unlink()
    with pytest.raises(SparclError, match=f"{file} could not be read: No such file"):
        trainer_of(tmp_path / "killed")
    torch.save(trained(ResNet18(channels=1, classes=1000), seed=1).state_dict(), file)
    with pytest.raises(SparclError, match=f"{file} has changed since it was chosen"):
        trainer_of(tmp_path / "killed")
    file.write_bytes(content)
    trainer_of(tmp_path / "killed").run()
    assert final(tmp_path / "killed") == final(tmp_path / "whole")


def test_the_first_checkpoint_holds_the_weights(tmp_path, file):
    """Killed after it, and before the first step."""
    trainer_of(tmp_path / "whole", weights=file).run()
    killed = trainer_of(tmp_path / "killed", weights=file)
    killed._evaluate_untrained = lambda: exec("raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        killed.run()
    assert [path.name for path in (tmp_path / "killed" / "checkpoints").iterdir()] == ["0000000000.safetensors"]
    file.unlink()
    trainer_of(tmp_path / "killed").run()
    assert final(tmp_path / "killed") == final(tmp_path / "whole")


def test_runs_are_known_by_what_is_in_the_file_not_by_its_name(tmp_path, file):
    def known_by(weights=None):
        values = from_preset("digits/derpp")
        return fingerprint(resolve({**values, "weights": weights} if weights else values))

    copied = shutil.copy(file, tmp_path / "copied.pt")
    torch.save(trained(ResNet18(), seed=1).state_dict(), tmp_path / "other.pt")
    assert known_by(file) == known_by(str(copied)) != known_by(tmp_path / "other.pt") != known_by()
    # What version 0.1.0 stored in its checkpoints is still the same.
    assert known_by() == "d83886ffe82361ca3f30a2a176bec5e05c2ef45ebb56ff444d9038b2ebfb3402"


def test_settings_that_were_stored_need_no_file(tmp_path, file):
    trainer_of(tmp_path / "run", weights=file)
    file.unlink()
    stored = json.loads((tmp_path / "run" / "settings.json").read_text())
    assert RunDirectory(tmp_path / "run").settings().weights.digest == stored["weights"]["digest"]
    with pytest.raises(SparclError, match="No such file"):
        resolve({"method": "er", "weights": str(file)})
    with pytest.raises(SparclError, match=r"weights.digest needs weights.file"):
        resolve({"method": "er", "weights": {"digest": stored["weights"]["digest"]}})


def test_a_run_starts_from_another_one(tmp_path, file):
    """By its directory; a sparse weight has zeros where it was not active."""
    trainer_of(tmp_path / "first", "digits/sparcl-derpp-90", weights=file).run()
    newest = max((tmp_path / "first" / "checkpoints").iterdir())
    tensors = load_file(newest)
    second = trainer_of(tmp_path / "second", weights=tmp_path / "first")
    assert second.settings.weights.file == newest
    values = second.network.parameters.values
    for name in values:
        expected = tensors[f"parameters.{name}"]
        if f"index.{name}" in tensors:
            full = np.zeros(values.specs[name].size, np.float32)
            full[tensors[f"index.{name}"]] = expected
            expected = full.reshape(values.specs[name].shape)
        assert np.array_equal(values[name], expected), name
    for name in second.network.parameters.statistics:
        assert np.array_equal(second.network.parameters.statistics[name], tensors[f"statistics.{name}"])
    assert set(sparcl.load_weights(newest)) == {*values, *second.network.parameters.statistics}
    # With the same sparsity, the largest weights are those that were active.
    third = trainer_of(tmp_path / "third", "digits/sparcl-derpp-90", weights=newest)
    third.sparsifier.begin_run()
    for name, index in third.network.parameters.index.items():
        active = tensors[f"index.{name}"][tensors[f"parameters.{name}"] != 0]
        assert np.isin(active, index).all()


def test_damaged_checkpoints_are_refused(tmp_path, file):
    trainer_of(tmp_path / "first", weights=file).run()
    newest = max((tmp_path / "first" / "checkpoints").iterdir())
    whole = newest.read_bytes()
    graph = build_model("resnet18", (1, 8, 8), 4, 4)
    length = int.from_bytes(whole[:8], "little")
    start, end = json.loads(whole[8 : 8 + length])["parameters.stem.conv.weight"]["data_offsets"]
    for place in (8 + length + start, 7 + length + end, whole.index(b"total_steps")):
        newest.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(SparclError, match=r"is damaged: .* has changed"):
            sparcl.load_weights(newest).copy_to(graph, Parameters(graph))
    newest.write_bytes(whole)
    sparcl.load_weights(newest).copy_to(graph, Parameters(graph))


def test_an_exported_model_is_refused_because_it_only_predicts(tmp_path):
    graph = build_model("convnet", (3, 8, 8), 2, 4)
    parameters = Parameters(graph)
    parameters.initialise(graph, np.random.default_rng(0))
    write_model(tmp_path / "m.sparcl", graph, parameters, ["a", "b"], Preprocessing((0.5,) * 3, (0.5,) * 3))
    with pytest.raises(SparclError, match=r"m.sparcl is an exported model, which can only predict: .* run or learner"):
        sparcl.load_weights(tmp_path / "m.sparcl")


def command(*arguments, cwd):
    program = [sys.executable, "-m", "sparcl.cli.main", *map(str, arguments)]
    return subprocess.run(program, capture_output=True, text=True, check=False, timeout=300, cwd=cwd)


def test_the_command_fails_before_anything_is_written(tmp_path, file):
    small = [word for change in SMALL for word in ("--set", change)]
    for arguments, said in (
        (["--from", "absent.pt"], "absent.pt could not be read: No such file or directory."),
        (["--from", file, "--set", "width=8"], "conv1.weight has shape 4x1x3x3, and stem.conv.weight must have 8x"),
        (["--from", file, "--set", "model=convnet"], "it lacks conv2.weight"),
    ):
        refused = command("run", "digits/er", *small, *arguments, cwd=tmp_path)
        assert refused.returncode == 1 and said in refused.stderr and refused.stderr.count("\n") == 1, refused.stderr
        assert not (tmp_path / "runs").exists()
    finished = command("run", "digits/er", *small, "--from", file.name, "--json", cwd=tmp_path)
    directory = json.loads(finished.stdout)["directory"]
    assert json.loads((tmp_path / directory / "settings.json").read_text())["weights"]["file"] == str(file)
    refused = command("run", "--resume", directory, "--from", file, cwd=tmp_path)
    assert "give no preset, --set, --protocol, --from or --out" in refused.stderr
