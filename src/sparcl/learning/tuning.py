"""Tuning at the start of a run. What was chosen is stored with the run: resumed, it must round as it did before."""

import contextlib
from collections.abc import Callable

from sparcl.data.store import cache_directory
from sparcl.errors import SparclError
from sparcl.learning import environment
from sparcl.learning.run_directory import RunDirectory
from sparcl.network.native import NativeNetwork
from sparcl.tuning import Tuned, TuningCache, apply, tune
from sparcl.tuning.cache import checked_knobs

#: Runs of fewer FLOPs than this are over in a minute or two, and are not worth tuning.
WORTH_TUNING = 1e13


def tuning_cache() -> TuningCache:
    found = environment.describe()
    return TuningCache(cache_directory(), f"{found['processor']}, {found['instruction_set']}")


def tune_run(
    network: NativeNetwork, images: int, seconds: float, directory: RunDirectory, progress: Callable[[float], None]
) -> list[Tuned]:
    """Tune (what was tuned before comes from the cache), use the result, and store it in the run's directory."""
    cache = tuning_cache()
    results = tune(network, images, seconds, known=cache.load(), progress=progress)
    with contextlib.suppress(SparclError):  # a cache that cannot be written is no reason not to run
        cache.store(results)
    apply(network, results)
    directory.record_tuning({name: network.engine.knobs(layer) for name, layer in network.convolutions.items()})
    # Also for layers that there was no time for: theirs would follow the density otherwise.
    use_stored(network, directory)
    return results


def use_stored(network: NativeNetwork, directory: RunDirectory) -> None:
    """Run as before, if the run was tuned."""
    stored = directory.tuning() or {}
    try:
        for name, knobs in stored.items():
            forward, data, gradient = (tuple(part) for part in knobs)
            checked_knobs("convolve", forward), checked_knobs("data_gradient", data)
            checked_knobs("weight_gradient", gradient)
            network.engine.set_knobs(network.convolutions[name], forward, data, gradient)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        path = directory.path / "tuning.json"
        raise SparclError(f"{path} is damaged: {error}. Start the run again in a new directory.") from error


def summary(results: list[Tuned]) -> str:
    passes = sum(len(tuned.layers) for tuned in results)
    before = sum(tuned.default_ms * len(tuned.layers) for tuned in results)
    after = sum(tuned.tuned_ms * len(tuned.layers) for tuned in results)
    if not results or not after:
        return "Tuned for this machine: nothing to tune."
    return (
        f"Tuned for this machine: {passes} passes of convolutions, {before:.1f} ms -> {after:.1f} ms a step "
        f"({before / after:.2f}x)."
    )
