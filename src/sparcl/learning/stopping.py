"""Ctrl-C that keeps the work."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol


class Stoppable(Protocol):
    def request_stop(self) -> None: ...


@contextmanager
def stopping_on_signals(learning: Stoppable) -> Iterator[list[int]]:
    """The first Ctrl-C, SIGTERM or closed terminal saves and stops; a second one ends the program at once.

    Yields what was received.
    """
    received: list[int] = []

    def on_signal(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        received.append(number)
        learning.request_stop()

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # under nohup a closed terminal is no reason to stop
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, on_signal) for number in numbers}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
