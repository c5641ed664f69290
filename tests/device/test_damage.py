"""Files of a learner that were changed, by a worn-out card or by somebody: opened correctly, or refused in one line."""

import copy
import json
import random
import shutil

import numpy as np
import pytest
import safetensors
from small import small, state

from sparcl.device.learner import Learner
from sparcl.device.model import open_predictor
from sparcl.device.states import read_sealed, write_sealed
from sparcl.errors import SparclError
from sparcl.learning.loop import Stopped


class StopAfter:
    def __init__(self, learner, steps):
        self.learner, self.steps = learner, steps

    def noted(self, *_): ...
    def started(self, *_): ...

    def stepped(self, epoch, epochs, step, total, loss):
        if step >= self.steps:
            self.learner.request_stop()


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory, photos):
    """A learner that knows two classes and was interrupted while it learned a third."""
    learner = small(tmp_path_factory.mktemp("damage") / "shop")
    learner.learn(photos.of("0", "1"))
    with pytest.raises(Stopped):
        learner.learn(photos.of("2"), listener=StopAfter(learner, 3))
    assert learner.pending.exists()
    return learner


@pytest.fixture(scope="module")
def known(interrupted, photos):
    """What may be found: the state as it is, and the one that resuming leads to."""
    directory = shutil.copytree(interrupted.directory, interrupted.directory.with_name("resumed"))
    resumed = Learner.open(directory)
    resumed.resume()
    picture = photos.folder / "0" / "00000.png"
    return state(interrupted), state(resumed), interrupted.predict(picture)[0].classes


def use_everything(directory, photos, known, *also):
    """Open, look, predict, resume: each works and gives what is right, or says in one line why not."""
    before, after, answer = known
    for use in (look, predict_one, resume):
        try:
            found = use(directory, photos)
        except SparclError as error:
            assert "\n" not in str(error)
        else:
            assert found in (before, after, answer, *also)


def look(directory, photos):
    learner = Learner.open(directory)
    learner.status()
    return state(learner)


def predict_one(directory, photos):
    return Learner.open(directory).predict(photos.folder / "0" / "00000.png")[0].classes


def resume(directory, photos):
    learner = Learner.open(directory)
    learner.resume()
    return state(learner)


def files_of(directory):
    return sorted(path for path in directory.rglob("*") if path.is_file())


@pytest.mark.parametrize("seed", range(40))
def test_random_changes_of_any_file(tmp_path, interrupted, photos, known, seed):
    generator = random.Random(seed)
    directory = shutil.copytree(interrupted.directory, tmp_path / "shop")
    paths = files_of(directory)
    path = paths[seed % len(paths)]
    content = bytearray(path.read_bytes())
    kind = generator.choice(["flip", "flip", "header", "cut", "zeros", "longer", "swap", "gone"])
    if kind in ("flip", "header"):
        for _ in range(generator.randint(1, 8)):
            last = min(len(content), 3000) if kind == "header" else len(content)
            content[generator.randrange(last)] ^= 1 << generator.randrange(8)
    elif kind == "cut":
        del content[generator.randrange(len(content)) :]
    elif kind == "zeros":
        start = generator.randrange(len(content))
        content[start : start + 512] = bytes(len(content[start : start + 512]))
    elif kind == "longer":
        content += generator.randbytes(100)
    elif kind == "swap":
        content = bytearray(generator.choice(files_of(directory)).read_bytes())
    path.write_bytes(content)
    if kind == "gone":
        path.unlink()
    use_everything(directory, photos, known, *([{"number": 0}] if kind == "gone" else []))


ARRAYS = [
    ("parameters.classifier.weight", lambda t: t[:1]),
    ("parameters.conv1.weight", lambda t: np.full_like(t, np.nan)),
    ("parameters.conv2.weight", lambda t: t[:-1]),
    ("statistics.bn1.running_var", lambda t: t.astype(np.float32).reshape(2, -1)),
    ("index.conv2.weight", lambda t: t[::-1].copy()),
    ("index.conv2.weight", lambda t: t + 10**6),
    ("index.conv2.weight", lambda t: t - 10**6),
    ("index.conv2.weight", lambda t: np.append(t[:-1], np.int32(-(2**31)))),  # whose distance to others overflows
    ("index.conv2.weight", lambda t: t.astype(np.float32)),
    ("updated.conv2.weight", lambda t: t + 10**6),
    ("updated.conv2.weight", lambda t: t[::-1].copy()),
    ("method.buffer.images", lambda t: t[:, :, :4]),
    ("method.buffer.images", lambda t: t.astype(np.float32)),
    ("method.buffer.labels", lambda t: t + 50),
    ("method.buffer.labels", lambda t: t - 50),
    ("method.buffer.logits", lambda t: t[:, :1]),
    ("method.buffer.logits", lambda t: np.full_like(t, np.inf)),
    ("method.buffer.seen", lambda t: t * 0 - 1),
    ("method.buffer.seen", lambda t: t + 2**60),
    ("sparsifier.born.conv2.weight", lambda t: t[:3]),
    ("sparsifier.removal.present", lambda t: t[:3]),
    ("sparsifier.gradients.clock", lambda t: t[:1]),
    ("held_out.images", lambda t: t[:, :1]),
    ("held_out.labels", lambda t: t + 9),
    ("order", lambda t: np.full(24, 10**9)),
]

CHANGES = [
    (("network", "width"), 10**6),
    (("network", "width"), 8),
    (("network", "outputs"), 3),
    (("network", "outputs"), -1),
    (("network", "size"), 10**9),
    (("network", "size"), 16),
    (("network", "model"), "resnet18"),
    (("network", "model"), ["x"]),
    (("network", "classes"), ["0", "0"]),
    (("network", "classes"), "01"),
    (("network", "mean"), [1, 2]),
    (("network", "std"), [0, 0, 0]),
    (("network", "std"), [1e-300, 1, 1]),
    (("network", "mean"), [1e300, 0, 0]),
    (("network", "format"), 2),
    (("position", "task"), 7),
    (("position", "task"), -1),
    (("position", "step"), 3),
    (("generators", "order"), {"bit_generator": "PCG64"}),
    (("history",), {}),
    (("history",), [3]),
    (("history",), [{}]),
    (("network",), None),
]


@pytest.mark.parametrize(("name", "change"), ARRAYS, ids=lambda value: value if isinstance(value, str) else "")
def test_arrays_that_no_learner_writes_are_refused(tmp_path, interrupted, photos, name, change):
    """With right checksums: somebody made them on purpose. Learning must refuse them before the engine sees them."""
    directory = shutil.copytree(interrupted.directory, tmp_path / "shop")
    changed = 0
    for path in files_of(directory):
        if path.suffix == ".safetensors" and path.name != "task.safetensors":
            tensors, content = read_sealed(path)
            if name in tensors:
                tensors[name] = change(tensors[name])
                write_sealed(path, tensors, content)
                changed += 1
    assert changed
    refused_or_harmless(directory, photos)


@pytest.mark.parametrize(("keys", "value"), CHANGES, ids=str)
def test_values_that_no_learner_writes_are_refused(tmp_path, interrupted, photos, keys, value):
    directory = shutil.copytree(interrupted.directory, tmp_path / "shop")
    shutil.rmtree(directory / "learning")
    path = Learner.open(directory).states.path(1)
    tensors, content = read_sealed(path)
    section = content
    for key in keys[:-1]:
        section = section[key]
    section[keys[-1]] = value
    write_sealed(path, tensors, content)
    refused_or_harmless(directory, photos)


def refused_or_harmless(directory, photos):
    """Resuming, learning or predicting refuses it; what does not is unharmed by it."""
    refused = 0
    uses = [
        lambda directory, photos: Learner.open(directory).learn(photos.of("4")),
        lambda directory, photos: Learner.open(directory).status(),
        predict_one,
    ]
    if (directory / "learning").exists():  # otherwise resuming would always be refused
        uses.append(resume)
    for number, use in enumerate(uses):
        copied = shutil.copytree(directory, directory.with_name(f"use{number}"))
        if number == 0:
            shutil.rmtree(copied / "learning", ignore_errors=True)
        try:
            use(copied, photos)
        except SparclError as error:
            assert "\n" not in str(error)
            refused += 1
    assert refused


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"training": 3}',
        b'{"training": {"method": {"name": "packnet"}}}',
        b'{"training": {"sparsifier": {"name": "rigl"}}}',
        b'{"training": {"width": "wide"}}',
        b'{"pictures": {"size": 7}}',
        b'{"pictures": {"mean": [0, 0, 0]}}',
        b'{"classes": -1}',
        b'{"unknown": 1}',
    ],
    ids=lambda content: content[:40].decode("latin-1"),
)
def test_settings_that_cannot_be_are_refused(tmp_path, interrupted, content):
    directory = shutil.copytree(interrupted.directory, tmp_path / "shop")
    (directory / "settings.json").write_bytes(content)
    with pytest.raises(SparclError) as caught:
        Learner.open(directory)
    assert "\n" not in str(caught.value)


def test_settings_of_another_learner_are_noticed(tmp_path, interrupted, photos):
    directory = shutil.copytree(interrupted.directory, tmp_path / "shop")
    settings = json.loads((directory / "settings.json").read_text())
    settings.pop("seal")  # what version 0.1.0 wrote had none
    for section, key, value in (("training", "width", 8), ("training", "model", "resnet18"), ("pictures", "size", 16)):
        changed = copy.deepcopy(settings)
        changed[section][key] = value
        (directory / "settings.json").write_text(json.dumps(changed))
        with pytest.raises(SparclError, match="does not fit together"):
            Learner.open(directory).resume()


def test_a_damaged_newest_state_can_be_undone(tmp_path, photos):
    learner = small(tmp_path / "shop")
    learner.learn(photos.of("0", "1"))
    before = state(learner)
    learner.learn(photos.of("2"))
    path = learner.states.path(2)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(SparclError, match="sparcl undo"):
        learner.predict(photos.folder / "0" / "00000.png")
    learner.undo()
    assert state(learner) == before


def test_checksums_cover_every_byte_of_a_state(interrupted):
    """Flipping any single byte is noticed, or changes nothing that is read."""
    path = interrupted.states.path(1)
    content = path.read_bytes()
    tensors, state_before = read_sealed(path)
    for place in range(0, len(content), len(content) // 150):
        changed = bytearray(content)
        changed[place] ^= 0x10
        other = path.with_name("other")
        other.write_bytes(changed)
        try:
            found, content_found = read_sealed(other)
        except (safetensors.SafetensorError, ValueError, KeyError, TypeError, OSError):
            continue
        assert content_found == state_before
        assert all(np.array_equal(found[name], tensors[name], equal_nan=True) for name in tensors)
    other.unlink()


def test_predicting_reads_only_what_it_needs(tmp_path, interrupted, photos):
    """The buffer may be large; damage in it does not keep the learner from answering."""
    directory = shutil.copytree(interrupted.directory, tmp_path / "shop")
    path = Learner.open(directory).states.path(1)
    content = path.read_bytes()
    tensors, _ = read_sealed(path)
    place = content.index(tensors["method.buffer.images"].tobytes())
    path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    assert open_predictor(directory).description.classes == ("0", "1")
    with pytest.raises(SparclError, match=r"method\.buffer\.images has changed"):
        Learner.open(directory).status()
