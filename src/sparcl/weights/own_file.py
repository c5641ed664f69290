"""Our own files as weights: the checkpoints of runs and the states of learners, sealed safetensors (`tensor_files`).

Of everything in them only the network's numbers are of use: `parameters.`, `statistics.` and, of sparse weights, the
positions in `index.`. An exported model is refused: it can only predict.
"""

import re
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from sparcl.errors import SparclError
from sparcl.tensor_files import UNREADABLE, SealedTensors
from sparcl.weights.file import StoredTensor, UnusableError, WeightFile

VALUES, STATISTICS, POSITIONS = "parameters.", "statistics.", "index."
NUMBERED = re.compile(r"\d{10}\.safetensors")

EXPORTED = (
    "is an exported model, which can only predict: its batch normalisations are folded into its weights. "
    "Start from the directory of the run or learner that it was exported from"
)


def newest_in(path: Path) -> Path:
    """The newest state in the directory of a run or a learner; anything else is the file itself."""
    if not path.is_dir():
        return path
    found = [
        file for folder in ("states", "checkpoints") for file in _files(path / folder) if NUMBERED.fullmatch(file.name)
    ]
    if not found:
        raise SparclError(f"{path} is a directory without a checkpoint or a learner's state. Name a file with weights.")
    return max(found, key=lambda file: file.name)


def _files(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


class OwnTensors:
    """The network's numbers under their names in the graph; `positions` of those that are sparse."""

    def __init__(self, file: WeightFile, tensors: dict[str, StoredTensor], texts: dict[str, str]) -> None:
        try:
            self._sealed = SealedTensors(OpenedTensors(file, tensors, texts), allow_unsealed=True)
        except UNREADABLE as error:
            raise UnusableError("is damaged: what is beside its arrays has changed") from error
        self.names = {
            name.removeprefix(prefix): name
            for prefix in (VALUES, STATISTICS)
            for name in tensors
            if name.startswith(prefix)
        }
        self.sparse = {name.removeprefix(POSITIONS) for name in tensors if name.startswith(POSITIONS)}

    def read(self, name: str) -> NDArray[Any]:
        return self._read(self.names[name])

    def positions(self, name: str) -> NDArray[Any]:
        return self._read(f"{POSITIONS}{name}")

    def _read(self, name: str) -> NDArray[Any]:
        try:
            return self._sealed[name]
        except UNREADABLE as error:
            raise UnusableError(f"is damaged: {error}") from error


class OpenedTensors:
    """Looks to `SealedTensors` like an open file of the safetensors package."""

    def __init__(self, file: WeightFile, tensors: dict[str, StoredTensor], texts: dict[str, str]) -> None:
        self._file, self._tensors, self._texts = file, tensors, texts

    def keys(self) -> list[str]:
        return list(self._tensors)

    def metadata(self) -> dict[str, str]:
        return self._texts

    def get_tensor(self, name: str) -> NDArray[Any]:
        return self._tensors[name].read(self._file)
