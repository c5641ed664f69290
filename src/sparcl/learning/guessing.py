"""Whether a run ended up guessing, though all of its numbers are finite.

A low Class-IL accuracy does not show it: it may be the method that forgets. All of these must agree:

- after the last task, the accuracies within each task's own classes are, taken together, no better than chance;
- in the last task, so are the accuracies on the training images;
- in every epoch of the last task, the loss is at or above that of guessing, ln(classes).

Then the network has collapsed, or never moved: far too high a learning rate does that, or one far too low. What is not
finite is caught earlier (loop.py).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LUCK = 3.0  # standard deviations of guessing


@dataclass(frozen=True)
class _Judged:
    images: int
    classes: int
    accuracy: float  # percent


def warning(
    events: Sequence[Mapping[str, Any]], stream: Mapping[str, Any], at_once: bool, learning_rate: float
) -> str | None:
    """One line for the result. From the lines of metrics.jsonl and what stream.json says; at_once: joint training."""
    end = next(event for event in reversed(events) if event["event"] == "task")
    row = end.get("domain_il") or end["task_il"]
    classes = [task["classes"][1] - task["classes"][0] for task in stream["tasks"]]
    tested = [
        _Judged(task["test"], several, accuracy)
        for task, several, accuracy in zip(stream["tasks"], classes, row, strict=True)
        if accuracy is not None and several > 1  # of a single class there is nothing to guess
    ]
    to_tell_apart = len(stream["class_names"]) if at_once else classes[-1]
    epochs = [event for event in events if event["event"] == "epoch" and event["task"] == end["task"]]
    trained = [_Judged(epoch.get("samples", 0), to_tell_apart, epoch["train_accuracy"]) for epoch in epochs]
    if not _is_chance(tested) or not _is_chance(trained):
        return None
    if any(epoch["loss"] < math.log(to_tell_apart) for epoch in epochs):
        return None
    return (
        "The network ended up guessing: its accuracies, in training and at the test, are no better than chance. "
        f"The learning rate may be far too high or too low (method.learning_rate={learning_rate:g}), "
        "or the training too short."
    )


def _is_chance(parts: Sequence[_Judged]) -> bool:
    images = sum(part.images for part in parts)
    right = sum(part.images * part.accuracy / 100 for part in parts)
    by_guessing = sum(part.images / part.classes for part in parts)
    spread = math.sqrt(sum(part.images * (1 - 1 / part.classes) / part.classes for part in parts))
    return images > 0 and right <= by_guessing + LUCK * spread
