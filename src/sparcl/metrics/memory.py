"""The memory this process has used at its peak."""

import resource


def peak_memory_mb() -> float:
    """The largest resident size so far, in MB (10^6 bytes)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
