"""Seals: a checksum beside what it was computed from, so that one flipped bit is noticed and never used.

CRC-32 notices every single flipped bit, and every burst of up to 32. It protects against worn-out disks and against
edits by hand, not against somebody who computes it again: what is read is checked for sense as well.
"""

import json
import zlib
from typing import Any

SEAL = "seal"


def sealed(content: dict[str, Any]) -> dict[str, Any]:
    """A JSON object with its seal as the last entry."""
    return {**content, SEAL: _checksum(content)}


def unsealed(content: dict[str, Any]) -> dict[str, Any]:
    """The content without its seal; raises ValueError if it has changed. Version 0.1.0 wrote no seals."""
    if SEAL not in content:
        return content
    inner = {name: value for name, value in content.items() if name != SEAL}
    if content[SEAL] != _checksum(inner):
        raise ValueError("it has changed since it was written")
    return inner


def _checksum(content: dict[str, Any]) -> int:
    """Of what the JSON says, not of how it is laid out. JSON has only texts as names, lists and no tuples."""
    parsed = json.loads(json.dumps(content))
    return zlib.crc32(json.dumps(parsed, sort_keys=True).encode())
