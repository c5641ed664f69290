"""Which settings of a run are not those that its preset and protocol give."""

from collections.abc import Sequence
from typing import Any

from sparcl.checked import plain
from sparcl.errors import SparclError
from sparcl.learning.protocols import DEFAULT_PROTOCOL
from sparcl.learning.settings import Settings, resolve
from sparcl.sparsity import SPARSIFIERS

# The name of a row says these, or they change no result.
SILENT = (
    "dataset",
    "method.name",
    "sparsifier.name",
    "sparsity",
    "seed",
    "threads",
    "checkpoint.",
    "tuning_seconds",
    "weights.digest",
)
# Other settings have other defaults with these, so they are not changed where they follow them.
LEADING = ("buffer_size", "optimizer.name", "weights.file")
TABLES = ("rates.", "sparsifier.layer_sparsity.")  # empty by default


def changed_settings(settings: Settings) -> dict[str, Any]:
    """By name. Of a method that is not known here nothing is known."""
    stored = plain(settings)
    preset = {
        "dataset": settings.dataset,
        "protocol": settings.protocol,
        "method": settings.method.name,
        "sparsifier": settings.sparsifier.name,
        "sparsity": settings.sparsity,
    }
    known = SPARSIFIERS.get(settings.sparsifier.name)
    options = known.leading_options if known else ()
    sparsifier = {name: value for name, value in stored["sparsifier"].items() if name in ("name", *options)}
    try:
        defaults = flattened(plain(resolve(preset)))
        leading = {
            "buffer_size": settings.buffer_size,
            "optimizer": settings.optimizer.name,
            "sparsifier": sparsifier,
            "weights": stored["weights"],
        }
        following = {**preset, **leading}
        expected = flattened(plain(resolve(following)))
        expected |= {key: defaults.get(key) for key in (*LEADING, *(f"sparsifier.{name}" for name in options))}
        expected["protocol"] = DEFAULT_PROTOCOL
    except SparclError:
        return {}
    if expected["backend"] == "auto":
        del expected["backend"]  # a run stores the one that it used
    return {
        key: value
        for key, value in flattened(stored).items()
        if key.startswith(TABLES) or (key in expected and value != expected[key] and not key.startswith(SILENT))
    }


def shared(changes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Those that all have in common."""
    first, *others = changes or [{}]
    return {key: value for key, value in first.items() if all(key in one and one[key] == value for one in others)}


def flattened(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= flattened(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat
