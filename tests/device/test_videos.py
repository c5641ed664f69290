"""Learners that learn from videos and cameras: the frames are pictures like any other."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from small import small, sparcl

pytest.importorskip("av", reason="videos need the extra `video`")
sys.path.insert(0, str(Path(__file__).parents[1] / "data"))
from test_distinct_frames import scene
from test_frames import write_video

from sparcl import Frames, SparclError
from sparcl.data import frames
from sparcl.device.gather import Gathered
from sparcl.device.learner import Learner


def gathered(sources, size=16):
    found = Gathered(sources, size, lambda: None)
    shown = []
    blocks = list(found.blocks(lambda what, done, total: shown.append((done, total))))
    images = np.concatenate(blocks) if blocks else np.zeros((0, 3, size, size), np.uint8)
    assert len(images) == len(found.labels) == len(found.digests)
    assert shown[-1][0] == shown[-1][1] and all(done <= total for done, total in shown)
    return images, found


@pytest.fixture
def videos(tmp_path):
    """Of six scenes, and of another four."""
    folder = tmp_path / "videos"
    folder.mkdir()
    write_video(folder / "mug.mp4", [scene(number) for number in range(6) for _ in range(3)])
    write_video(folder / "cup.mp4", [scene(number) for number in range(10, 14) for _ in range(3)])
    return folder


def test_frames_are_pictures_of_their_class(videos):
    sources = {
        0: str(videos / "mug.mp4"),
        1: Frames(str(videos / "cup.mp4"), most=3),
        2: [scene(20).transpose(1, 2, 0)],
    }
    images, found = gathered(sources)
    assert found.labels == [0] * 6 + [1] * 3 + [2]
    assert len(set(found.digests)) == 10 and not found.skipped
    assert [note.partition(":")[0] for note in found.notes] == [str(videos / "mug.mp4"), str(videos / "cup.mp4")]
    assert np.array_equal(gathered(sources)[0], images)  # the same every time


def test_a_folder_may_hold_photos_and_videos(videos):
    Image.fromarray(scene(30).transpose(1, 2, 0)).save(videos / "photo.png")
    (videos / "broken.mp4").write_bytes(b"nothing")
    _, found = gathered({0: videos})
    assert found.labels == [0] * 11  # 6 + 4 frames and a photo
    assert len(found.skipped) == 1 and "broken.mp4 is not a readable video" in found.skipped[0]


def test_what_cannot_give_frames_is_said_before_anything_is_read(videos, tmp_path, monkeypatch):
    monkeypatch.setattr(frames, "DEVICES", tmp_path)
    for source, words in ((str(videos / "none.mp4"), "is not a file"), ("camera:0", "There is no camera 0")):
        with pytest.raises(SparclError, match=words):
            gathered({0: str(videos / "mug.mp4"), 1: source})
    monkeypatch.setattr(frames, "find_spec", lambda name: None)
    with pytest.raises(SparclError, match=r"sparcl-edge\[video\]"):
        gathered({0: str(videos / "mug.mp4")})
    _, found = gathered({0: [videos, scene(0).transpose(1, 2, 0)]})  # in a folder they are left out, and it is said
    assert found.labels == [0] and len(found.skipped) == 2 and "sparcl-edge[video]" in found.skipped[0]


def learners(tmp_path):
    """One of each kind."""
    small(tmp_path / "scratch")
    Learner.create(tmp_path / "instant", image_size=32)
    return tmp_path / "scratch", tmp_path / "instant"


def test_the_command_learns_from_videos(videos, tmp_path):
    for directory in learners(tmp_path):
        learned = sparcl("learn", directory, videos / "mug.mp4", f"beaker={videos / 'cup.mp4'}", "--frames", "4")
        assert learned.returncode == 0, learned.stderr
        said = learned.stdout + learned.stderr
        assert "mug.mp4: 4 frames kept" in said and "cup.mp4: 4 frames kept" in said
        for name in ("mug", "beaker"):
            assert re.search(rf"{name} \([34] pictures\)", said)  # one may be held out
        again = sparcl("learn", directory, f"mug={videos / 'mug.mp4'}", "--seconds", "0.5", "--frames", "2")
        assert "mug.mp4: 2 frames kept" in again.stdout + again.stderr


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["camera:0"], "Say what camera:0 shows: NAME=camera:0"),
        (["mug=camera:999"], "There is no camera 999"),
        (["mug=none.mp4"], "none.mp4 is not a file"),
        (["mug=camera:0", "--frames", "0"], "0 frames cannot be kept"),
        (["mug=camera:0", "--seconds", "-1"], "-1 seconds"),
    ],
)
def test_mistakes_are_one_line(tmp_path, words, reason):
    small(tmp_path / "shop")
    refused = sparcl("learn", tmp_path / "shop", *words, cwd=tmp_path)
    assert refused.returncode == 1 and reason in refused.stderr and len(refused.stderr.splitlines()) == 1
