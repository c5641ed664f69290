"""Sections of Markdown documents that commands write: what is between two marks, and how it came about."""

import datetime
import shlex
import sys
from pathlib import Path

from sparcl.errors import SparclError
from sparcl.files import write_text


def check_section(path: Path | None, section: str) -> None:
    """Raises SparclError if nothing could be written there: better before hours of work than afterwards."""
    if path is not None:
        _parts(path, section)


def replace_section(path: Path, section: str, content: str) -> None:
    """Put `content` between the marks of a section; everything else stays."""
    before, after = _parts(path, section)
    write_text(path, f"{before}\n{content}\n{after}")


def written_by(command: str) -> str:
    """The last line of a section."""
    return f"Written on {datetime.datetime.now(datetime.UTC).date().isoformat()} by `{command}`."


def running_command() -> str:
    """The command that this process runs, as one would type it."""
    module = sys.modules["__main__"].__spec__
    tool = module is not None and not module.name.startswith("sparcl.")
    return shlex.join([*(["python", "-m", module.name] if module and tool else ["sparcl"]), *sys.argv[1:]])


def _parts(path: Path, section: str) -> tuple[str, str]:
    """The text up to the first mark and from the second mark on."""
    begin, end = f"<!-- begin {section} -->", f"<!-- end {section} -->"
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise SparclError(f"{path} could not be read: {getattr(error, 'strerror', None) or error}.") from error
    before, found_begin, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise SparclError(f"{path} has no section {section!r}: it needs the lines {begin} and {end}.")
    return before + begin, end + after
