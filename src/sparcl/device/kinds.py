"""The two kinds of learner: from scratch, in this room, and with a backbone, in a room above it.

That one is loaded by name, and only where it is needed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparcl.device.learner import Learner

NO_BACKBONE = "none"
FROM_SCRATCH, WITH_BACKBONE = None, "instant"  # what states say of themselves

_LEARNERS = {True: "sparcl.instant.learner:InstantLearner", False: "sparcl.device.learner:Learner"}
_PREDICTORS = {
    WITH_BACKBONE: "sparcl.instant.predictor:InstantPredictor",
    FROM_SCRATCH: "sparcl.device.model:Predictor",
}


def learner_class(backbone: str) -> "type[Learner]":
    found: type[Learner] = _load(_LEARNERS[backbone != NO_BACKBONE])
    return found


def predictor_class(kind: Any) -> Any:
    """Raises ValueError for what no learner has written."""
    if kind not in _PREDICTORS:
        raise ValueError(f"it is of a kind that this version does not know: {kind!r}")
    return _load(_PREDICTORS[kind])


def _load(place: str) -> Any:
    module, name = place.split(":")
    return getattr(import_module(module), name)
