"""Reading frames of videos and cameras.

Decoders of videos are large, foreign and native, and a file may come from anywhere: they run in a process of their own
(frames_child.py) with limits. It sends the frames that are worth keeping, already as small as a learner wants them; if
it crashes, hangs or needs too much memory, that is one line, and the frames that came before stay.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparcl.data.frames import CAMERA_SECONDS, Frames, check_source
from sparcl.data.tree import shown
from sparcl.errors import SparclError
from sparcl.wording import counted

CAMERA_FORMAT = "v4l2"
PATIENCE = 60.0  # seconds that the child may take for its next sign of life
SECONDS_BETWEEN_LOOKS = 0.2
CHUNK = 1 << 16
# What the child writes, each with one letter before it.
ALIVE, PICTURE, END = b".", b"P", b"E"
MAX_END = 4096


def read_frames(
    frames: Frames, size: int, note: Callable[[str], None], poll: Callable[[], None]
) -> Iterator[NDArray[np.uint8] | SparclError]:
    """Pictures [3, size, size]; a reason last, if it broke off. `note` is told what was left out; `poll` is called now
    and then, and may raise."""
    try:
        check_source(frames)
    except SparclError as error:
        yield error
        return
    with _Child(frames, size, poll) as child:
        kept = 0
        try:
            for picture in child.pictures():
                kept += 1
                yield picture
        except _ChildError as error:
            after = f" after {counted(kept, 'frame')}" if kept else ""
            yield SparclError(f"{shown(frames.source)} broke off{after}: {error}.")
            return
    tally = child.ending
    problem = tally.get("problem")
    if not problem and not tally["kept"]:
        problem = "has only blurred or empty frames" if tally["blurred"] else "has no frames"
    if problem:
        yield SparclError(f"{shown(frames.source)} {problem}.")
        return
    note(
        f"{shown(frames.source)}: {counted(tally['kept'], 'frame')} kept; left out were {tally['alike']:,} nearly "
        f"equal to the one before and {tally['blurred']:,} blurred or empty."
    )


class _ChildError(Exception):
    """Why the child did not finish, as the end of a sentence."""


class _Child:
    """The process that decodes, and what it sends."""

    def __init__(self, frames: Frames, size: int, poll: Callable[[], None]) -> None:
        self.ending: dict[str, Any] = {}
        self._poll = poll
        self._bytes = 3 * size * size
        self._shape = (3, size, size)
        self._received = bytearray()
        camera = frames.camera
        request = {
            "path": str(camera or Path(frames.source).absolute()),
            "format": CAMERA_FORMAT if camera else "",
            "seconds": frames.seconds or (CAMERA_SECONDS if camera else None),
            "most": frames.most,
            "size": size,
        }
        path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "sparcl.data.frames_child", json.dumps(request)],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for whoever started it
            bufsize=0,
        )

    def __enter__(self) -> "_Child":
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def pictures(self) -> Iterator[NDArray[np.uint8]]:
        while True:
            kind = self._read(1)
            if kind == PICTURE:
                yield np.frombuffer(self._read(self._bytes), np.uint8).reshape(self._shape)
            elif kind == END:
                length = int.from_bytes(self._read(2), "little")
                self.ending = _checked_ending(self._read(min(length, MAX_END)))
                return
            elif kind != ALIVE:
                raise _ChildError("its decoder answers without sense")

    def _read(self, count: int) -> bytes:
        assert self._process.stdout is not None
        output = self._process.stdout.fileno()
        deadline = time.monotonic() + PATIENCE
        while len(self._received) < count:
            self._poll()
            if not select.select([output], [], [], SECONDS_BETWEEN_LOOKS)[0]:
                if time.monotonic() > deadline:
                    raise _ChildError(f"its decoder has done nothing for {PATIENCE:.0f} s")
                continue
            chunk = os.read(output, CHUNK)
            if not chunk:
                raise _ChildError(self._died())
            self._received += chunk
        content = bytes(self._received[:count])
        del self._received[:count]
        return content

    def _died(self) -> str:
        code = self._process.wait()
        if code >= 0:
            return "its decoder gave up"
        name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
        return f"its decoder crashed ({name}). The file is damaged, or made to do harm"


def _checked_ending(text: bytes) -> dict[str, Any]:
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(text)
        if isinstance(found, dict) and isinstance(found.get("problem"), str):
            return {"problem": shown(found["problem"][:300])}
        if isinstance(found, dict) and all(type(found.get(name)) is int for name in ("kept", "alike", "blurred")):
            return found
    raise _ChildError("its decoder answers without sense")
