"""The process that decodes a video or reads a camera for frames_reader.py. It writes, a letter before each:

    .                       it is at work
    P  3 * size * size      a picture
    E  length, JSON         how many were kept and left out; or the problem

Its memory, files and time are limited, and only formats of videos are read: those that name other files or addresses
(playlists) are not among them.
"""

import json
import math
import os
import resource
import sys
import time
from collections.abc import Iterator
from typing import Any, BinaryIO

from PIL import Image

from sparcl.data.distinct import SLACK, Picker
from sparcl.data.frames_reader import ALIVE, END, PICTURE
from sparcl.data.pictures import Prepare, centre_square, prepared
from sparcl.errors import SparclError

MEMORY = 2 << 30
OPEN_FILES = 64
PROCESSOR_SECONDS = 4 * 3600
MAX_PIXELS = 40_000_000  # of a frame: 8K has 33 million
MAX_LOOKED_AT = 3600 * 60  # frames: an hour
EVERY = 0.1  # seconds between frames that are looked at
USUAL_RATE = 30.0  # frames a second, where nothing says how many
FORMATS = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpeg,mpegts,mpegvideo,asf,h264,hevc,ogg,flv,gif,mjpeg"


def main() -> None:
    output = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # whatever a library prints is not for the parent
    request = json.loads(sys.argv[1])
    try:
        limit()
        ending: dict[str, Any] = take(request, output)
    except SparclError as error:
        ending = {"problem": str(error)}
    except MemoryError:
        ending = {"problem": f"needs more than {MEMORY >> 20:,} MB of memory to be decoded"}
    text = json.dumps(ending).encode()
    output.write(END + len(text).to_bytes(2, "little") + text)


def limit() -> None:
    for what, most in (
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_CPU, PROCESSOR_SECONDS),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(what)
        resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def take(request: dict[str, Any], output: BinaryIO) -> dict[str, int]:
    """Sends the frames to keep; returns what became of all."""
    import av

    is_camera, seconds, most = bool(request["format"]), request["seconds"], request["most"]
    prepare = centre_square(request["size"])
    try:
        options = {} if is_camera else {"format_whitelist": FORMATS, "protocol_whitelist": "file"}
        name = request["path"] if is_camera else f"file:{request['path']}"
        with av.open(name, format=request["format"] or None, options=options) as container:
            if not container.streams.video:
                raise SparclError("has no moving pictures: it is a sound")
            length = seconds if is_camera else _length(container.duration, seconds)
            picker = Picker(most, length / most if length else 0.0)
            for moment, frame in frames(container, seconds, is_camera):
                output.write(ALIVE)
                for picture in picker.add(moment, picture_of(frame, prepare)):
                    output.write(PICTURE + picture.tobytes())
                if picker.full:
                    break
            for picture in picker.finish():
                output.write(PICTURE + picture.tobytes())
    except av.error.FFmpegError as error:
        if is_camera:
            raise SparclError(f"cannot be used: {error.strerror}. Is another program using it?") from error
        raise SparclError(f"is not a readable video: {error.strerror}") from error
    return {"kept": picker.tally.kept, "alike": picker.tally.alike, "blurred": picker.tally.blurred}


def _length(microseconds: int | None, seconds: float | None) -> float | None:
    """How long the frames to come are spread over, as far as the file says so."""
    told = (microseconds or 0) / 1e6
    return min(told, seconds or math.inf) if 0 < told < 86_400 else None


def frames(container: Any, seconds: float | None, is_camera: bool) -> Iterator[tuple[float, Any]]:
    """Every tenth of a second. Damage in the middle of a file ends it, and keeps what came before."""
    import av

    stream = container.streams.video[0]
    stream.thread_type = "AUTO"
    rate = float(stream.average_rate or 0) or USUAL_RATE
    start, first, due = time.monotonic(), None, -math.inf
    decoded = container.decode(stream)
    for number in range(MAX_LOOKED_AT):
        try:
            frame = next(decoded, None)
        except av.error.FFmpegError:
            if number == 0:
                raise
            return
        if frame is None:
            return
        moment = number / rate if frame.time is None else float(frame.time)
        first = moment if first is None else first
        moment = time.monotonic() - start if is_camera else moment - first
        if seconds is not None and moment > seconds:
            return
        if moment >= due - SLACK or moment < due - 2 * EVERY:  # a clock may also go backwards
            due = moment + EVERY
            yield moment, frame


def picture_of(frame: Any, prepare: Prepare) -> Any:
    if frame.width * frame.height > MAX_PIXELS:
        raise SparclError(f"has frames of {frame.width:,}x{frame.height:,} pixels, which is too large")
    picture: Image.Image = frame.to_image()
    if frame.rotation:  # a phone was held upright
        picture = picture.rotate(frame.rotation, expand=True)
    return prepared(picture, prepare)


if __name__ == "__main__":
    main()
