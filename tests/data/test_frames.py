"""Videos and cameras as sources of pictures: small videos, made here."""

import random
import struct
import subprocess
import sys

import numpy as np
import pytest

from sparcl.data import frames, frames_reader
from sparcl.data.frames import Frames, is_frame_source
from sparcl.data.frames_reader import read_frames
from sparcl.errors import SparclError

av = pytest.importorskip("av", reason="videos need the extra `video`")
from test_distinct_frames import blurred, scene  # noqa: E402

SIZE = 32


def write_video(path, pictures, rate=10, codec="mpeg4", **options):
    """Pictures [3, height, width], one for each frame."""
    with av.open(str(path), "w", **options) as container:
        stream = container.add_stream(codec, rate=rate)
        _, stream.height, stream.width = pictures[0].shape
        stream.pix_fmt, stream.bit_rate = "yuvj420p" if codec == "mjpeg" else "yuv420p", 4_000_000
        for picture in pictures:
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture.transpose(1, 2, 0)), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def taken(source, size=SIZE, **options):
    """The pictures, the problems, and what was said."""
    notes = []
    found = list(read_frames(Frames(str(source), **options), size, notes.append, lambda: None))
    problems = [str(one) for one in found if isinstance(one, SparclError)]
    assert not any("\n" in problem or len(problem) > 600 for problem in problems)
    return [one for one in found if not isinstance(one, SparclError)], problems, notes


@pytest.fixture
def video(tmp_path):
    """Five scenes for a second each; in the third somebody shakes the camera."""
    shown = [scene(number) for number in range(5) for _ in range(10)]
    shown[24:26] = [blurred(one) for one in shown[24:26]]
    return write_video(tmp_path / "mug.mp4", shown)


def test_a_video_gives_each_scene_once(video):
    pictures, problems, notes = taken(video, 64)
    assert not problems
    assert [picture.shape for picture in pictures] == [(3, 64, 64)] * 5
    for number, picture in enumerate(pictures):
        assert np.abs(picture.astype(int) - scene(number)).mean() < 12  # the codec loses some
    assert notes == [f"{video}: 5 frames kept; left out were 43 nearly equal to the one before and 2 blurred or empty."]


@pytest.mark.parametrize(
    ("name", "codec"), [("a.mkv", "ffv1"), ("b.avi", "mjpeg"), ("c.webm", "libvpx"), ("d.mov", "h264")]
)
def test_other_formats(tmp_path, name, codec):
    if codec == "h264":
        codec = "libx264" if "libx264" in av.codecs_available else "mpeg4"
    video = write_video(tmp_path / name, [scene(number) for number in (0, 1, 2) for _ in range(5)], codec=codec)
    pictures, problems, _ = taken(video)
    assert len(pictures) == 3 and not problems


def test_how_long_and_how_many(video, tmp_path):
    assert len(taken(video, seconds=2.5)[0]) == 3
    assert len(taken(video, most=2)[0]) == 2
    moving = write_video(tmp_path / "moving.mp4", [scene(number) for number in range(40)])
    pictures, _, _ = taken(moving, 64, most=4)
    assert len(pictures) == 4  # from all over it
    for place, picture in enumerate(pictures):
        assert np.abs(picture.astype(int) - scene(10 * place)).mean() < 20


def test_a_phone_held_upright(tmp_path):
    """The file says that its pictures are to be turned by a quarter, clockwise: what was left is then at the top."""
    lying = np.full((3, 64, 96), 40, np.uint8)
    lying[:, :, :48] = 200
    lying[:, ::4] //= 2  # something to see
    video = write_video(tmp_path / "upright.mp4", [lying] * 5)
    content = bytearray(video.read_bytes())
    matrix = content.index(b"tkhd") + 4 + 40
    turned = (0, 1 << 16, 0, -(1 << 16), 0, 0, 64 << 16, 0, 1 << 30)
    assert struct.unpack_from(">9i", content, matrix)[0] == 1 << 16
    struct.pack_into(">9i", content, matrix, *turned)
    video.write_bytes(content)
    (picture,), _, _ = taken(video)
    assert picture[:, :12].mean() > 3 * picture[:, 20:].mean()


def test_a_camera_is_read_in_the_same_way(video, tmp_path, monkeypatch):
    """There is none here: a video stands in for the device."""
    monkeypatch.setattr(frames, "DEVICES", tmp_path)
    monkeypatch.setattr(frames_reader, "CAMERA_FORMAT", "mov")
    (tmp_path / "video3").write_bytes(video.read_bytes())
    pictures, problems, notes = taken("camera:3", seconds=5)
    assert pictures and not problems and notes[0].startswith("camera:3: ")
    _, problems, _ = taken("camera:7")
    assert problems == [f"There is no camera 7 ({tmp_path}/video7). There is camera:3."]
    monkeypatch.setattr(frames_reader, "CAMERA_FORMAT", "v4l2")
    _, problems, _ = taken("camera:3")
    assert len(problems) == 1 and "camera:3 cannot be used" in problems[0]


def test_what_is_a_source_of_frames(tmp_path, monkeypatch):
    (tmp_path / "folder.mp4").mkdir()
    assert is_frame_source("camera:0") and is_frame_source("a/b.MP4") and is_frame_source(tmp_path / "c.webm")
    for other in ("camera:x", "camera:", "a.jpg", "folder", tmp_path / "folder.mp4", "camera:0/x"):
        assert not is_frame_source(other)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "camera:0").mkdir()
    assert not is_frame_source("camera:0")  # a folder that is called so
    for wrong in ({"most": 0}, {"most": 10**9}, {"seconds": 0}, {"seconds": -1.0}, {"seconds": float("nan")}):
        with pytest.raises(SparclError):
            Frames("camera:0", **wrong)


def test_broken_videos_are_one_line(video, tmp_path):
    whole = video.read_bytes()
    broken = tmp_path / "broken.mp4"
    for content, reason in (
        (b"", "is not a readable video"),
        (b"no video at all" * 100, "is not a readable video"),
        (whole[: len(whole) // 2], "is not a readable video"),  # its table of contents is at the end
    ):
        broken.write_bytes(content)
        pictures, problems, _ = taken(broken)
        assert not pictures and len(problems) == 1 and reason in problems[0]
    assert taken(tmp_path / "missing.mp4")[1] == [f"{tmp_path}/missing.mp4 is not a file."]
    empty = write_video(tmp_path / "empty.mp4", [np.zeros((3, 64, 64), np.uint8)] * 5)
    assert taken(empty)[1] == [f"{empty} has only blurred or empty frames."]


def test_damage_in_the_middle_keeps_what_came_before(tmp_path):
    video = write_video(tmp_path / "long.mkv", [scene(number) for number in range(8) for _ in range(5)])
    whole = video.read_bytes()
    video.write_bytes(whole[: 2 * len(whole) // 3])
    pictures, _, _ = taken(video)
    assert 2 <= len(pictures) < 8


def test_flipped_bits_anywhere_are_survived(tmp_path):
    """Whatever the decoder makes of them: pictures of the right size, or one line."""
    chance = random.Random(5)
    whole = write_video(tmp_path / "whole.mp4", [scene(number) for number in range(4) for _ in range(3)]).read_bytes()
    broken, refused = tmp_path / "broken.mp4", 0
    for _ in range(16):
        content = bytearray(whole)
        for _ in range(chance.choice((1, 10, 200))):
            content[chance.randrange(len(content))] = chance.randrange(256)
        broken.write_bytes(content)
        pictures, problems, notes = taken(broken)
        assert all(picture.shape == (3, SIZE, SIZE) for picture in pictures)
        assert len(problems) + len(notes) == 1
        refused += bool(problems)
    assert 0 < refused < 16


def test_playlists_do_not_lead_elsewhere(video, tmp_path):
    playlist = tmp_path / "list.mp4"
    for text in (
        f"ffconcat version 1.0\nfile '{video}'\n",
        f"#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:5,\n{video}\n#EXT-X-ENDLIST\n",
    ):
        playlist.write_text(text)
        pictures, problems, _ = taken(playlist)
        assert not pictures and "is not a readable video" in problems[0]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import os; os.kill(os.getpid(), 11)", "crashed (SIGSEGV)"),
        ("import sys; sys.exit(3)", "gave up"),
        ("import os; os.write(1, b'?')", "answers without sense"),
        ("import os; os.write(1, b'E\\x02\\x00[]')", "answers without sense"),
        ("import time; time.sleep(600)", "has done nothing for 1 s"),
    ],
)
def test_a_decoder_that_dies_or_hangs_is_one_line(video, monkeypatch, code, reason):
    """In the place of the child, something that behaves as badly."""
    start = subprocess.Popen

    def other(command, **options):
        return start([sys.executable, "-c", code], **options)

    monkeypatch.setattr(frames_reader.subprocess, "Popen", other)
    monkeypatch.setattr(frames_reader, "PATIENCE", 1.0)
    pictures, problems, notes = taken(video)
    assert not pictures and not notes and len(problems) == 1
    assert problems[0].startswith(f"{video} broke off: its decoder") and reason in problems[0]


def test_the_limits_of_the_decoder_hold(tmp_path):
    """In a process of its own: they are for good."""
    code = (
        "from sparcl.data.frames_child import limit; limit()\n"
        "try: x = bytearray(3 << 30)\n"
        "except MemoryError: print('no memory')\n"
        "try: open('file', 'wb', 0).write(b'x'); print('written')\n"
        "except OSError: print('no files')\n"
    )
    command = [sys.executable, "-c", f"import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n{code}"]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert finished.stdout.split("\n")[:2] == ["no memory", "no files"], finished.stderr


def test_stopping_ends_the_decoder(video):
    class StopError(Exception):
        pass

    def poll():
        raise StopError

    with pytest.raises(StopError):
        list(read_frames(Frames(str(video)), SIZE, lambda note: None, poll))


def test_without_the_extra_one_line_names_it(video, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    monkeypatch.setattr(frames, "find_spec", lambda name: None)
    _, problems, _ = taken(video)
    assert problems == [frames.NEEDS_VIDEO] and 'pip install "sparcl-edge[video]"' in frames.NEEDS_VIDEO
