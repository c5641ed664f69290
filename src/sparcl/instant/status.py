"""Everything there is to know about a learner with a backbone, as plain values."""

from typing import TYPE_CHECKING, Any

from sparcl.checked import plain
from sparcl.device.learner_directory import LearnerDirectory
from sparcl.device.status import directory_bytes
from sparcl.files import is_locked
from sparcl.instant.photo_doctor import MAX_QUICK, in_short

if TYPE_CHECKING:
    from sparcl.instant.learner import InstantLearner


def describe(learner: "InstantLearner", at_once: bool = False) -> dict[str, Any]:
    """`at_once`: without examining the pictures, if there are so many that it takes seconds."""
    directory = LearnerDirectory.open(learner.directory)
    state, states = learner.state(), directory.states
    numbers = states.numbers()
    busy = is_locked(learner.directory)
    begun = directory.pending.begun()
    calibration, kept = state.head.calibration, state.kept
    judged = state.judgement()
    examined = None if at_once and len(kept) > MAX_QUICK else state.examined()
    return {
        "directory": str(learner.directory),
        "learns": numbers[0] if numbers else 0,
        "can_undo": bool(numbers) and (numbers[0] == 1 or numbers[0] - 1 in numbers),
        "learning": begun and busy,
        "interrupted": begun and not busy,
        "resumable": begun and not busy,
        "backbone": {"name": learner.settings.backbone, "digest": state.about.digest, "image_size": state.about.size},
        "deepened": state.deepened,
        "classes": [
            {
                "name": name,
                "kept": int(kept.of_class(name).sum()),
                "right": judged.held_out.get(name, (0, 0))[0],
                "judged": judged.held_out.get(name, (0, 0))[1],
            }
            for name in state.about.classes
        ],
        "accuracy": judged.accuracy,
        "judged_by": "held-out pictures" if state.upper else "leaving one out",
        "calibration_error": None if calibration.error is None else 100 * calibration.error,
        "says_unknown": calibration.threshold is not None,
        "advice": None if examined is None else in_short(examined),
        "examination": None if examined is None else examined.to_json(kept),
        "state_bytes": states.size(numbers[0]) if numbers else 0,
        "directory_bytes": directory_bytes(learner.directory),
        "history": plain(list(state.history)),
    }
