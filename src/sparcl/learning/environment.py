"""What machine and which versions a run used."""

import datetime
import os
import platform
from pathlib import Path
from typing import Any

from sparcl import _engine


def describe() -> dict[str, Any]:
    return {
        "sparcl": installed_version("sparcl-edge"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "instruction_set": _engine.instruction_set(),
        "packages": {name: installed_version(name) for name in ("numpy", "safetensors", "torch")},
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "Model"))]
    return names[0] if names else "unknown"


def installed_version(package: str) -> str | None:
    import importlib.metadata  # here, because it loads much that training does not need

    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
