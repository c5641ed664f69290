"""What is remembered of every learning session."""

from sparcl.checked import Checked, setting
from sparcl.device.judgement import Judgement


class HistoryEntry(Checked, ignores_unknown=True):
    """One session: what was learned, how long it took, and how well the learner did before and after it."""

    number: int
    when: str
    pictures: dict[str, int]  # by class: how many were trained on
    kept: dict[str, int] = setting(factory=dict)  # of these classes, in the buffer
    new: list[str] = setting(factory=list)  # classes that were not known before
    skipped: int = 0  # files that could not be read
    epochs: int
    steps: int
    seconds: float
    before: Judgement | None
    after: Judgement
