"""What a learner says when a learning session went badly, or when the pictures it is given are odd."""

import json
import shutil
from dataclasses import replace

import pytest
from small import Photos, small, sparcl, state

import sparcl as package
from sparcl.device.cautions import cautions
from sparcl.device.forgetting import chance_of, worse
from sparcl.device.history import HistoryEntry
from sparcl.device.judgement import Judgement
from sparcl.device.learner import Learner
from sparcl.device.states import read_sealed
from sparcl.errors import SparclError


class Noting:
    """Keeps what is said about the pictures."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def noted(self, text: str) -> None:
        self.notes.append(text)

    def started(self, *_) -> None: ...
    def stepped(self, *_) -> None: ...


@pytest.fixture
def own_photos(tmp_path, digits):
    (tmp_path / "photos").mkdir()
    return Photos(tmp_path / "photos", digits)


def judgement(**held_out) -> Judgement:
    return Judgement(held_out, None)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a": (9, 9)}, {"a": (0, 9)}, ["a"]),
        ({"a": (9, 9)}, {"a": (8, 9)}, []),  # one more mistake is chance
        ({"a": (45, 50)}, {"a": (43, 50)}, []),
        ({"a": (45, 50)}, {"a": (35, 50)}, ["a"]),
        ({"a": (20, 50)}, {"a": (45, 50)}, []),
        # A little everywhere adds up, and names all that lost; many classes, one of which lost two, do not.
        (dict.fromkeys("abcdef", (20, 20)), dict.fromkeys("abcdef", (19, 20)), list("abcdef")),
        (dict.fromkeys("abcdef", (19, 20)), {**dict.fromkeys("bcdef", (19, 20)), "a": (17, 20)}, []),
        # A class that is lost shows among many that stay.
        (dict.fromkeys("abcdefgh", (48, 50)), {**dict.fromkeys("abcdefg", (49, 50)), "h": (38, 50)}, ["h"]),
        ({}, {"a": (1, 9)}, []),
    ],
)
def test_classes_are_worse_if_chance_does_not_explain_it(before, after, expected):
    assert worse(judgement(**before), judgement(**after)) == expected


def test_the_chance_is_that_of_the_binomial_distribution():
    """Counted out: three pictures, none of which was wrong, each wrong with probability 0.5 / 4."""
    share = 0.125
    assert chance_of((3, 3), (2, 3)) == pytest.approx(1 - (1 - share) ** 3)
    assert chance_of((3, 3), (0, 3)) == pytest.approx(share**3)
    assert chance_of((2, 3), (2, 3)) == 1


def test_a_session_that_harms_says_which_classes_and_offers_to_undo_it(tmp_path, digits):
    """One epoch of one new class, far too few: what the first steps upset is not rehearsed."""
    learner = package.Learner.create(
        tmp_path / "shop", 8, "none", model="convnet", width=16, epochs=12, threads=1, pictures={"flip": False}
    )
    learner.learn({digit: digits / "train" / digit for digit in "01234"})
    shown = sparcl("learn", learner.directory, digits / "train" / "6", "--epochs", "1")
    assert shown.returncode == 0
    last = shown.stderr.splitlines()[-1]
    assert last.startswith("WARNING: This learning session made classes worse that were known before: ")
    assert "It had 1 epoch instead of 12" in last and last.endswith(f"sparcl undo {learner.directory}")
    lost = json.loads(sparcl("status", learner.directory, "--json").stdout)["history"][-1]
    named = worse(Judgement.from_json(lost["before"]), Judgement.from_json(lost["after"]))
    assert named and all(f"{name} (was right on" in last for name in named)
    assert "made classes worse" in sparcl("status", learner.directory).stdout
    learner.undo()
    with pytest.warns(UserWarning, match="made classes worse"):
        learned = learner.learn({"6": digits / "train" / "6"}, epochs=1)
    assert learned.cautions[0] in last
    learner.undo()
    assert "WARNING" not in sparcl("learn", learner.directory, digits / "train" / "6", "--epochs", "48").stderr


def test_the_reason_is_given_where_it_is_known(tmp_path):
    entry = HistoryEntry(
        number=2,
        when="2026-01-01T00:00:00",
        before=judgement(a=(9, 9)),
        after=judgement(a=(0, 9)),
        pictures={"b": 30},
        kept={"b": 3},
        epochs=12,
        steps=400,
        seconds=1.0,
    )
    for changes, words in (
        ({"epochs": 3}, "It had 3 epochs instead of 12"),
        ({"steps": 12}, "It had only 12 steps"),
        ({}, "now on 0). Take it back"),
    ):
        found = cautions(replace(entry, **changes), 12, tmp_path)
        assert len(found) == 1 and words in found[0]
    many = {"before": dict.fromkeys("abcdefg", (9, 9)), "after": dict.fromkeys("abcdefg", (1, 9))}
    found = cautions(replace(entry, **{key: judgement(**value) for key, value in many.items()}), 12, tmp_path)
    assert "and 2 more" in found[0]


def test_a_class_of_which_nothing_is_kept_is_said(tmp_path, own_photos):
    learner = small(tmp_path / "shop", buffer_size=4)
    learner.learn(own_photos.of("0", "1"))
    for path in sorted(own_photos.of("2")["2"].iterdir())[3:]:
        path.unlink()
    shown = sparcl("learn", learner.directory, own_photos.folder / "2", "--json")
    entry = json.loads(shown.stdout)
    assert entry["kept"] == {"2": 0} and entry["pictures"] == {"2": 3}  # otherwise this tests nothing
    said = "Of 3 pictures of 2 none is kept for rehearsal, so the next learning session will forget it and none is held"
    assert said in shown.stderr and any(said in caution for caution in entry["cautions"])


def test_two_pictures_are_enough(tmp_path, photos):
    """Whichever two: none of them is held out where then only one would be left."""
    pictures = sorted((photos.folder / "0").iterdir())
    for number in range(12):
        learner = small(tmp_path / str(number), pictures={"held_out": 0.5})
        with pytest.warns(UserWarning, match="none is held out"):
            learned = learner.learn({"0": pictures[2 * number : 2 * number + 2]}, epochs=1)
        assert learned.entry.pictures == {"0": 2}
    with pytest.raises(SparclError, match=r"^1 picture cannot be learned from"):
        small(tmp_path / "one").learn({"0": [pictures[0], pictures[0]]}, listener=Noting())


def test_copies_are_learned_once(tmp_path, own_photos):
    """With and without copies the same is learned, bit for bit, and the buffer holds no picture for its copies."""
    learners = [small(tmp_path / name) for name in ("without", "with")]
    learners[0].learn(own_photos.of("0", "1"))
    for number in (3, 5):
        shutil.copy(own_photos.folder / "1" / f"{number:05d}.png", own_photos.folder / "1" / f"copy{number}.png")
    noting = Noting()
    learned = learners[1].learn(own_photos.of("0", "1"), listener=noting)
    assert state(learners[0]) == state(learners[1])
    assert noting.notes == ["Copies of the same picture are left out: 1 2."]
    assert sum(learned.entry.pictures.values()) < 48


def test_known_pictures_under_another_name_are_said_and_held_out_ones_are_not_trained_on(tmp_path, photos):
    learner = small(tmp_path / "shop", pictures={"held_out": 0.3}, buffer_size=100)
    learner.learn(photos.of("0", "1"))
    noting = Noting()
    learned = learner.learn({"zero": photos.folder / "0"}, listener=noting)
    assert len(noting.notes) == 1
    assert noting.notes[0].endswith("given as 'zero', and known as '0' already: only one can be right.")
    tensors, _ = read_sealed(learner.states.path(2))
    held = [image.tobytes() for image in tensors["held_out.images"]]
    of_first = {image.tobytes() for image in tensors["held_out.images"][tensors["held_out.labels"] == 0]}
    assert len(of_first) > 3 and len(set(held)) == len(held)
    assert not of_first & {image.tobytes() for image in tensors["method.buffer.images"]}
    assert learned.entry.pictures["zero"] + len(of_first) <= 24


def test_folders_of_the_same_name_are_not_merged_by_accident(tmp_path, photos):
    learner = small(tmp_path / "shop")
    for place, digit in (("a", "0"), ("b", "1")):
        shutil.copytree(photos.folder / digit, tmp_path / place / "apples")
    one, other = tmp_path / "a" / "apples", tmp_path / "b" / "apples"
    refused = sparcl("learn", learner.directory, one, other)
    assert refused.returncode == 1 and len(refused.stderr.splitlines()) == 1
    assert f"apples={one} apples={other}" in refused.stderr and learner.states.newest() == 0
    assert sparcl("learn", learner.directory, f"apples={one}", f"apples={other}", "-q").returncode == 0
    assert [entry["name"] for entry in Learner.open(learner.directory).status()["classes"]] == ["apples"]


def test_a_log_begins_with_the_first_epoch(tmp_path, photos):
    learner = small(tmp_path / "shop")
    shown = sparcl("learn", learner.directory, photos.folder / "0", photos.folder / "1")
    assert [line.split(",")[0] for line in shown.stderr.splitlines()] == ["epoch 1/2", "epoch 2/2"]


def test_a_time_beyond_all_bounds_is_refused_with_its_bounds(tmp_path, photos):
    learner = small(tmp_path / "shop")
    with pytest.raises(SparclError, match=r"^1e\+09 minutes .* above 0 and below 1,000,000\.$"):
        learner.learn(photos.of("0"), minutes=1e9)
