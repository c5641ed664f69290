"""The memory this process has used at its peak."""

import resource
from pathlib import Path

STATUS = Path("/proc/self/status")


def peak_memory_mb() -> float:
    """The largest resident size so far, in MB (10^6 bytes)."""
    # Preferred to getrusage, in whose answer a new process starts with the size of the one that has started it.
    try:
        lines = STATUS.read_text().splitlines()
        kilobytes = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes * 1024 / 1e6
