"""Finding the fastest way to run each convolution on the machine at hand, by a genetic search over measured times."""

from sparcl.tuning.cache import TuningCache
from sparcl.tuning.search import Tuned, apply, tune

__all__ = ["Tuned", "TuningCache", "apply", "tune"]
