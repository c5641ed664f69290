"""Where backbones are: one in the package, those of the user in a directory of their own.

$SPARCL_HOME/backbones/NAME.safetensors      ($XDG_DATA_HOME/sparcl, ~/.local/share/sparcl without that variable)
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from sparcl.backbone.backbone import Backbone
from sparcl.backbone.file import read_backbone
from sparcl.errors import SparclError
from sparcl.hints import did_you_mean
from sparcl.weights.file import UnusableError, shown

DEFAULT_BACKBONE = "mobilenet_v2"
PACKAGED = {DEFAULT_BACKBONE: Path(__file__).with_name("mobilenet_v2.safetensors")}
SUFFIX = ".safetensors"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
RESERVED = ("none",)  # a learner without a backbone


@dataclass(frozen=True)
class DamagedBackbone:
    """One that is there and cannot be used."""

    name: str
    path: Path
    problem: str


def backbone_directory() -> Path:
    """Where imported backbones are kept."""
    home = os.environ.get("SPARCL_HOME")
    if home:
        return Path(home) / "backbones"
    data = os.environ.get("XDG_DATA_HOME", "")  # a relative one is to be ignored, says its specification
    base = Path(data) if data.startswith("/") else Path.home() / ".local" / "share"
    return base / "sparcl" / "backbones"


def checked_name(name: str) -> str:
    """A name that is safe as the name of a file."""
    if not NAME.fullmatch(name) or name in RESERVED:
        raise SparclError(
            f"{shown(name)!r} cannot be the name of a backbone. Use letters, digits, dots, dashes and underscores."
        )
    return name


def file_of(name: str) -> Path:
    return PACKAGED.get(name) or backbone_directory() / f"{checked_name(name)}{SUFFIX}"


def find_backbone(name: str) -> Backbone:
    """By its name. SparclError says what to do if it is missing or damaged."""
    path = file_of(name)
    if not path.exists():
        if name in PACKAGED:
            raise SparclError(f"{path} is missing: install SparCL again.")
        raise SparclError(
            f"There is no backbone called {name!r}{did_you_mean(name, _names())} "
            f"Another one is imported with: sparcl backbone import FILE {name}"
        )
    try:
        return read_backbone(path, name)
    except UnusableError as error:
        remedy = "Install SparCL again" if name in PACKAGED else f"Import it again: sparcl backbone import FILE {name}"
        raise SparclError(f"{path} {error}. {remedy}.") from error


def list_backbones() -> list[Backbone | DamagedBackbone]:
    """That of the package, then those of the user by name."""
    found: list[Backbone | DamagedBackbone] = []
    for name in _names():
        try:
            found.append(find_backbone(name))
        except SparclError as error:
            found.append(DamagedBackbone(name, file_of(name), str(error)))
    return found


def remove_backbone(name: str) -> Path:
    """Remove an imported one; returns where it was. Learners that use it cannot be used without it."""
    path = file_of(name)
    if name in PACKAGED:
        raise SparclError(f"{name} is part of SparCL and stays.")
    if not path.exists():
        raise SparclError(f"There is no backbone called {name!r}{did_you_mean(name, _names())}")
    try:
        path.unlink()
    except OSError as error:
        raise SparclError(f"{path} could not be removed: {error.strerror or error}.") from error
    return path


def _names() -> list[str]:
    try:
        inside = sorted(path.name for path in backbone_directory().iterdir())
    except OSError:
        inside = []
    own = [name.removesuffix(SUFFIX) for name in inside if name.endswith(SUFFIX)]
    return [*PACKAGED, *(name for name in own if NAME.fullmatch(name) and name not in (*PACKAGED, *RESERVED))]
