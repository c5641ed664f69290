"""Words for numbers and paths, in messages."""

import shlex
from pathlib import Path


def counted(number: int, noun: str) -> str:
    """ "1 picture", "1,200 pictures"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def quoted(path: Path | str) -> str:
    """A path as it stands in a command that can be copied into a shell; with a leading dash it would be an option."""
    text = str(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)
