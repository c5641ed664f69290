"""The state that a learning session begins from, whole and checked."""

import numpy as np
from numpy.typing import NDArray

from sparcl.checked import check
from sparcl.device.history import HistoryEntry
from sparcl.device.model import Description
from sparcl.device.states import States
from sparcl.learning.position import Position
from sparcl.network.restoring import checked_index
from sparcl.tensor_files import State, Tensors

Pictures = tuple[NDArray[np.uint8], NDArray[np.int64]]


class BaseState:
    """Empty before the first learning session."""

    def __init__(self, states: States, number: int) -> None:
        self.states, self.number = states, number
        self.tensors: Tensors = {}
        self.state: State = {}
        self.description: Description | None = None
        self.position = Position()
        self.history: list[HistoryEntry] = []
        if number:
            with states.open(number) as sealed:
                self.tensors, self.state = dict(sealed), sealed.state
                self.description = Description.from_json(self.state["network"])
                self._check()

    def _check(self) -> None:
        assert self.description is not None
        self.position = Position.from_json(self.state["position"])
        if self.position.task != self.number:
            raise ValueError("its position is not that of this learning session")
        checked_index(self.description.graph(), self.tensors)
        size, known = self.description.size, len(self.description.classes)
        for where, (images, labels) in (("held-out", self.held_out), ("rehearsed", self.rehearsed)):
            if images.dtype != np.uint8 or images.shape != (len(labels), 3, size, size):
                raise ValueError(f"the {where} pictures are not what they should be")
            if labels.dtype != np.int64 or labels.ndim != 1 or not ((labels >= 0) & (labels < known)).all():
                raise ValueError(f"the {where} pictures have impossible labels")
        self.history = check(list[HistoryEntry], self.state["history"])

    @property
    def classes(self) -> tuple[str, ...]:
        return self.description.classes if self.description else ()

    @property
    def held_out(self) -> Pictures:
        """The pictures that are never trained on, and their labels."""
        return self._pictures("held_out")

    @property
    def rehearsed(self) -> Pictures:
        """The same of the buffer."""
        return self._pictures("method.buffer")

    def _pictures(self, place: str) -> Pictures:
        if not self.number:
            return np.zeros((0, 3, 1, 1), np.uint8), np.zeros(0, np.int64)
        return self.tensors[f"{place}.images"], self.tensors[f"{place}.labels"]
