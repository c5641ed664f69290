"""Files of a learner that were changed, by a worn-out card or by somebody: opened correctly, or refused in one line."""

import copy
import json
import random
import shutil

import numpy as np
import pytest
from small import small, state

from sparcl.device import settings as learner_settings
from sparcl.device.base_state import BaseState
from sparcl.device.gather import decode_files, listed_files
from sparcl.device.learner import Learner
from sparcl.device.model import open_predictor
from sparcl.device.states import read_sealed, write_sealed
from sparcl.errors import SparclError
from sparcl.files import Directory
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


def same_or_refused(path, look, step=1):
    """A bit of every byte flipped, one at a time: looking raises SparclError, or finds what it found before.

    Returns the share of flips that were refused.
    """
    content, wanted, refused, generator = path.read_bytes(), look(), 0, random.Random(0)
    places = range(0, len(content), step)
    for place in places:
        changed = bytearray(content)
        changed[place] ^= 1 << generator.randrange(8)
        path.write_bytes(changed)
        try:
            found = look()
        except SparclError as error:
            assert "\n" not in str(error)
            refused += 1
        else:
            assert found == wanted
    path.write_bytes(content)
    return refused / len(places)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory, photos):
    """As `interrupted`, and as small as a learner can be: so that every byte of it can be damaged."""
    learner = small(tmp_path_factory.mktemp("tiny") / "shop", width=1, buffer_size=4, pictures={"held_out_most": 1})
    pictures = {name: sorted(folder.iterdir())[:5] for name, folder in photos.of("0", "1", "2").items()}
    learner.learn({"0": pictures["0"], "1": pictures["1"]}, listener=StopAfter(learner, 1000))
    with pytest.raises(Stopped):
        learner.learn({"2": pictures["2"]}, listener=StopAfter(learner, 1))
    return learner


def plain_arrays(tensors):
    return {name: (str(tensor.dtype), tensor.shape, tensor.tobytes()) for name, tensor in tensors.items()}


def test_no_flipped_bit_of_a_state_changes_what_is_read(tiny):
    states = tiny.states

    def look():
        base = BaseState(states, 1)
        return plain_arrays(base.tensors), base.state

    assert same_or_refused(tiny.states.path(1), look) > 0.999


def test_no_flipped_bit_of_a_state_changes_what_is_predicted(tiny, photos):
    """Predicting does not read everything: where damage does not matter, the answer is the same."""
    pixels = np.ascontiguousarray(np.stack(list(decode_files(listed_files(photos.folder / "0"), 8))[:3]))
    path = tiny.states.path(1)
    header = int.from_bytes(path.read_bytes()[:8], "little") + 8

    def look():
        return [prediction.confidences for prediction in open_predictor(tiny.directory).predict(pixels)]

    assert header / path.stat().st_size < same_or_refused(path, look, step=5) < 1


def test_no_flipped_bit_of_the_settings_changes_them(tiny):
    home = Directory.open(tiny.directory)

    def look():
        return learner_settings.load(home)

    assert same_or_refused(tiny.directory / "settings.json", look) > 0.8  # most others are in blanks


@pytest.mark.parametrize("name", ["task.safetensors", "images.bin"])
def test_no_flipped_bit_of_an_interrupted_session_changes_it(tiny, name):
    def look():
        found = tiny.pending.read(tiny.pending.read_task())
        return found.request, found.images.tobytes(), found.labels.tobytes(), found.held_out.tobytes()

    assert same_or_refused(tiny.directory / "learning" / name, look) > 0.999


def test_no_flipped_bit_of_a_checkpoint_changes_it(tiny):
    [path] = (tiny.directory / "learning" / "checkpoints").iterdir()

    def look():
        tensors, state = tiny.pending.load(lambda _: None)
        return plain_arrays(tensors), state

    assert same_or_refused(path, look) > 0.999


def test_behind_a_damaged_checkpoint_the_one_before_serves(tmp_path, photos, known):
    learner = small(tmp_path / "shop", checkpoint={"minutes": 0})
    learner.learn(photos.of("0", "1"))
    with pytest.raises(Stopped):
        learner.learn(photos.of("2"), listener=StopAfter(learner, 3))
    newest = max((learner.directory / "learning" / "checkpoints").iterdir())
    newest.write_bytes(newest.read_bytes()[:-1])
    with pytest.warns(UserWarning, match="is damaged .* Continuing from the checkpoint before it"):
        learner.resume()
    assert state(learner) == known[1]


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
