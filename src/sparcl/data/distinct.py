"""Which frames of a moving picture are worth learning from: sharp ones that differ from the last one kept.

    every tenth of a second ─► blurred? (against the second before and after) ─► like the last one kept? ─► kept

A frame is blurred if it has far less detail than those around it: the camera moved, or has not focused yet. One without
any detail (a covered lens) counts as blurred too.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

NEIGHBOURS = 10  # frames before and after, which say how much detail to expect
BLURRED = 0.35  # of their median
EMPTY = 2.0  # variance of the Laplacian, in squared grey levels: noise has about as much
THUMBNAIL = 32  # pixels a side
SLACK = 0.01  # seconds: clocks are rounded
SAME = 4.0  # mean difference of thumbnails, in grey levels


@dataclass
class Tally:
    """What became of the frames that were looked at."""

    kept: int = 0
    alike: int = 0
    blurred: int = 0


@dataclass(frozen=True)
class _Frame:
    time: float
    picture: NDArray[np.uint8]
    sharpness: float


class Picker:
    """Takes pictures [3, size, size] with their time, and gives back those to keep: `most` of them, about `interval`
    seconds apart or more."""

    def __init__(self, most: int, interval: float) -> None:
        self.tally = Tally()
        self._most, self._interval = most, interval
        self._before: list[float] = []  # sharpness of those that were judged last
        self._waiting: list[_Frame] = []
        self._thumbnail: NDArray[np.float32] | None = None
        self._last = -np.inf  # time of the last one kept

    @property
    def full(self) -> bool:
        return self.tally.kept >= self._most

    def add(self, time: float, picture: NDArray[np.uint8]) -> Iterator[NDArray[np.uint8]]:
        self._waiting.append(_Frame(time, picture, sharpness(grey(picture))))
        if len(self._waiting) > NEIGHBOURS:
            yield from self._judge()

    def finish(self) -> Iterator[NDArray[np.uint8]]:
        while self._waiting:
            yield from self._judge()

    def _judge(self) -> Iterator[NDArray[np.uint8]]:
        """The one that waits longest."""
        expected = float(np.median([*self._before, *(frame.sharpness for frame in self._waiting)]))
        frame = self._waiting.pop(0)
        self._before = [*self._before, frame.sharpness][-NEIGHBOURS:]
        if self.full:
            return
        if frame.sharpness < max(EMPTY, BLURRED * expected):
            self.tally.blurred += 1
            return
        thumbnail = _thumbnail(frame.picture)
        if self._thumbnail is not None and np.abs(thumbnail - self._thumbnail).mean() < SAME:
            self.tally.alike += 1
            return
        if frame.time - self._last < self._interval - SLACK:
            return  # the others are to come from all over the video
        self._thumbnail, self._last = thumbnail, frame.time
        self.tally.kept += 1
        yield frame.picture


def grey(picture: NDArray[np.uint8]) -> NDArray[np.float32]:
    levels: NDArray[np.float32] = picture.mean(axis=0, dtype=np.float32)
    return levels


def sharpness(levels: NDArray[np.float32]) -> float:
    """The variance of the Laplacian: small where nothing has an edge."""
    inner = levels[1:-1, 1:-1]
    laplacian = levels[:-2, 1:-1] + levels[2:, 1:-1] + levels[1:-1, :-2] + levels[1:-1, 2:] - 4 * inner
    return float(laplacian.var())


def _thumbnail(picture: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Without its mean: a camera that lets in more light sees the same."""
    small = Image.fromarray(grey(picture)).resize((THUMBNAIL, THUMBNAIL), Image.Resampling.BOX)
    levels: NDArray[np.float32] = np.array(small, np.float32)
    levels -= levels.mean()
    return levels
