"""Starting from weights: which file, and that it is still the same one.

The settings keep the digest of the file, so that a run is known by the weights it started from wherever they lie. They
are read once: what goes on from a checkpoint or from a state needs the file no more.
"""

from collections.abc import Iterator
from pathlib import Path

from sparcl.checked import Checked, setting
from sparcl.errors import SparclError
from sparcl.network import Network
from sparcl.weights.load import Weights, load_weights


class WeightsSettings(Checked):
    file: Path | None = setting(default=None, meaning="weights to start from: .pt, safetensors, or a run or learner")
    digest: str | None = setting(default=None, meaning="SHA-256 of this file, recorded when it is chosen")


def completed(chosen: WeightsSettings) -> WeightsSettings:
    """With the whole path and the digest; what has a digest already is as it was stored, and the file may be gone."""
    if chosen.file is None:
        if chosen.digest is not None:
            raise SparclError("weights.digest needs weights.file, the file that has this digest.")
        return chosen
    if chosen.digest is not None:
        return chosen
    found = load_weights(chosen.file.expanduser())
    return WeightsSettings(file=found.path.resolve(), digest=found.digest)


def chosen_weights(chosen: WeightsSettings) -> Weights:
    """Those of the file, if it is still what it was."""
    assert chosen.file is not None
    found = load_weights(chosen.file)
    if found.digest != chosen.digest:
        raise SparclError(f"{chosen.file} has changed since it was chosen to start from. Put it back, or start anew.")
    return found


def start_from(chosen: WeightsSettings, network: Network) -> Iterator[str]:
    """Fill a network that has its initial values, and no masks yet; tells what was done."""
    matches = chosen_weights(chosen).copy_to(network.graph, network.parameters)
    return (f"Weights of {chosen.file}: {note}" for note in matches.notes())
