"""Errors a person can act on: the command line prints them as one line and exits non-zero, without a traceback.

Messages name settings and arguments of the library. What they are called on the command line, `sparcl.cli` adds.
"""

from pathlib import Path
from typing import Literal


class SparclError(Exception):
    """Something outside the program is wrong (input, settings, disk). The message says what, where, and what to do."""


class UnfinishedError(SparclError):
    """A run or a learning session was begun in a directory and can be continued."""

    def __init__(self, problem: str, what: Literal["run", "session"], directory: Path) -> None:
        super().__init__(f"{problem} {REMEDIES[what]}")
        self.problem, self.what, self.directory = problem, what, directory


REMEDIES = {"run": "Continue it.", "session": "Continue it with resume(), or drop it with undo()."}
