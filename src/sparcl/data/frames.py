"""Frames of video files and cameras as a source of pictures. They are read by frames_reader.py.

Frames("mug.mp4")                     # of a file: spread over all of it
Frames("camera:0", seconds=10)        # of /dev/video0, from now on
"""

import os
import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from sparcl.data.tree import shown
from sparcl.errors import SparclError

MAX_FRAMES = 100  # of one source, unless somebody wants more
CAMERA_SECONDS = 10.0
CAMERA = re.compile(r"camera:(\d{1,3})")
DEVICES = Path("/dev")
SUFFIXES = (".mp4", ".mov", ".m4v", ".mkv", ".webm", ".avi", ".3gp", ".mpg", ".mpeg", ".mts", ".ts", ".wmv")
NEEDS_VIDEO = 'Videos and cameras need PyAV, which is not installed. Install it with: pip install "sparcl-edge[video]"'


@dataclass(frozen=True)
class Frames:
    """A video file, or a camera (`camera:0`), as a source of pictures: distinct and sharp frames only.

    `seconds`: how long to look, at most; of a camera 10 by default. `most`: how many frames to keep, at most.
    """

    source: str
    seconds: float | None = None
    most: int = MAX_FRAMES

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", str(self.source))
        if not 1 <= self.most <= 100_000:
            raise SparclError(f"{self.most} frames cannot be kept. Give a number from 1 to 100,000.")
        if self.seconds is not None and not 0 < self.seconds <= 86_400:
            raise SparclError(f"Frames cannot be taken for {self.seconds:g} seconds. Give a number from 0 to 86,400.")

    @property
    def camera(self) -> Path | None:
        """The device, if it is a camera."""
        found = CAMERA.fullmatch(self.source)
        return DEVICES / f"video{int(found[1])}" if found and not Path(self.source).exists() else None


def is_frame_source(source: str | Path) -> bool:
    """A camera, or a file that is named as a video."""
    path = Path(source)
    if path.is_dir():
        return False
    return Frames(str(source)).camera is not None or path.suffix.lower() in SUFFIXES


def check_source(frames: Frames) -> None:
    """SparclError if nothing can come from it."""
    if find_spec("av") is None:
        raise SparclError(NEEDS_VIDEO)
    camera = frames.camera
    if camera is None:
        if not Path(frames.source).is_file():
            raise SparclError(f"{shown(frames.source)} is not a file.")
        return
    if not camera.exists():
        present = sorted(path.name.removeprefix("video") for path in DEVICES.glob("video*"))
        others = f" There is {', '.join(f'camera:{number}' for number in present)}." if present else ""
        raise SparclError(f"There is no camera {frames.source.partition(':')[2]} ({camera}).{others}")
    if not os.access(camera, os.R_OK):
        raise SparclError(f"{camera} may not be read. Whoever uses it must be in its group: usermod -aG video USER")
