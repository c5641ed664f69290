"""Signals that ask a run to stop: it saves first."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from sparcl.learning.trainer import Trainer


@contextmanager
def stopping_on_signals(trainer: Trainer) -> Iterator[list[int]]:
    """The first Ctrl-C or SIGTERM saves and stops; a second one ends the program at once. Yields what was received."""
    received: list[int] = []

    def on_signal(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        received.append(number)
        trainer.request_stop()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
