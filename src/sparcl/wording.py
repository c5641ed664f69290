"""Words for numbers and paths, in messages."""

import shlex
from collections.abc import Sequence
from pathlib import Path


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """ "1 picture", "1,200 pictures"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {plural or noun + 's'}"


def listed(names: Sequence[str], most: int = 5) -> str:
    """ "apples", "apples and pears", "apples, pears and 3 more"."""
    shown = [*names[:most], f"{len(names) - most:,} more"] if len(names) > most else list(names)
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def quoted(path: Path | str) -> str:
    """A path as it stands in a command that can be copied into a shell; with a leading dash it would be an option."""
    text = str(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)
