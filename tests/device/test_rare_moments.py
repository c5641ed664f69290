"""What happens seldom, and must not cost anything that was learned: divergence, disks, rights, links, pipes."""

import shlex
import subprocess
import sys

import pytest
from small import small, sparcl, state

from sparcl.device.learner import Learner
from sparcl.errors import SparclError
from sparcl.learning.loop import Stopped

COMMAND = shlex.join([sys.executable, "-m", "sparcl.cli.main"])


def shell(line: str, **options) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["sh", "-c", line], capture_output=True, check=False, timeout=120, **options)


@pytest.mark.parametrize("epochs", [1, 3])
def test_a_learn_that_diverges_is_dropped(tmp_path, photos, epochs):
    """With one epoch only the last update shows it, after which no loss is computed any more."""
    learner = small(tmp_path / "shop", epochs=epochs, method={"name": "derpp", "learning_rate": 1e30})
    with pytest.raises(SparclError, match=r"diverged.*as it was before.*learning_rate=1e\+29"):
        learner.learn(photos.of("0", "1"))
    assert state(learner) == {"number": 0} and not learner.pending.exists()


def test_batches_that_cannot_be_normalised_are_refused_at_once(tmp_path):
    for changes in ({"buffer_size": 1}, {"batch_size": 1}):
        with pytest.raises(SparclError, match="at least 2"):
            small(tmp_path / "shop", model="resnet18", **changes)
    assert not (tmp_path / "shop").exists()


def test_a_state_that_may_not_be_read_is_not_called_damaged(tmp_path, photos):
    learner = small(tmp_path / "shop")
    learner.learn(photos.of("0", "1"))
    path = learner.states.path(1)
    path.unlink()
    path.mkdir()  # root may read everything else
    for look in (lambda: learner.predict(photos.folder / "0"), learner.status):
        with pytest.raises(SparclError, match="could not be read: Is a directory"):
            look()


def test_what_a_new_learner_left_on_a_full_disk_does_not_block_the_next(tmp_path):
    shop = tmp_path / "shop"
    (shop / "states").mkdir(parents=True)
    (shop / "settings.json.partial").write_text("{")
    small(shop)
    assert Learner.open(shop).states.newest() == 0
    other = tmp_path / "other"
    (other / "states").mkdir(parents=True)
    (other / "states" / "mine").write_text("")
    with pytest.raises(SparclError, match="not an empty directory"):
        small(other)


def test_a_resumed_learn_names_what_was_skipped(tmp_path, photos):
    learner = small(tmp_path / "shop")
    bad = tmp_path / "2"
    bad.mkdir()
    (bad / "notes.txt").write_text("no picture")

    class Stopping:
        def noted(self, text: str) -> None: ...
        def started(self, total_steps: int, done_steps: int) -> None:
            learner.request_stop()

        def stepped(self, *_) -> None: ...

    with pytest.raises(Stopped):
        learner.learn({"0": photos.folder / "0", "1": [photos.folder / "1", bad]}, listener=Stopping())
    learned = learner.resume()
    assert learned.entry.skipped == 1 and "notes.txt" in learned.skipped[0]


def test_folders_of_classes_are_no_class_whatever_lies_beside_them(tmp_path, photos):
    learner = small(tmp_path / "shop")
    (tmp_path / "all").mkdir()
    for name in ("0", "1"):
        (tmp_path / "all" / name).mkdir()
        (tmp_path / "all" / name / "a.png").write_bytes((photos.folder / name / "00000.png").read_bytes())
    (tmp_path / "all" / "README.txt").write_text("photos")
    with pytest.raises(SparclError, match="holds folders, not pictures"):
        learner.learn({"all": tmp_path / "all"})
    (tmp_path / "empty").mkdir()
    with pytest.raises(SparclError, match="holds no pictures"):
        learner.learn({"0": [photos.folder / "0", tmp_path / "empty"]})


def test_names_paths_and_pipes_are_taken_as_they_are_given(tmp_path, photos):
    shop, link = tmp_path / "my shop", tmp_path / "plums"
    learner = small(shop)
    link.symlink_to(photos.folder / "0")
    assert f"sparcl learn '{shop}' FOLDER" in sparcl("status", shop).stdout
    assert sparcl("learn", shop, link, f"{photos.folder / '1'}/", "-q").returncode == 0
    assert [entry["name"] for entry in learner.status()["classes"]] == ["plums", "1"]
    picture = photos.folder / "1" / "00001.png"
    piped = shell(f"cat {picture} | {COMMAND} predict '{shop}' /dev/stdin")
    assert piped.returncode == 0 and piped.stdout.startswith(b"/dev/stdin: "), piped.stderr
    closed = shell(f"{COMMAND} status '{shop}' >&-; {COMMAND} predict '{shop}' {picture} >&-")
    assert b"Traceback" not in closed.stderr
    some = sparcl("predict", shop, picture, "--top", "2", tmp_path / "missing.png", picture)
    assert some.returncode == 1 and len(some.stdout.splitlines()) == 2 and "does not exist" in some.stderr
    assert sparcl("predict", shop, "").returncode == 2
    assert "is a file" in sparcl("status", picture).stderr
    assert "does not exist" in sparcl("predict", tmp_path / "none.sparcl", picture).stderr
