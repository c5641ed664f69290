"""What the learner knows, and the numbers that matter most."""

from sparcl.figures.markup import Markup, element, join
from sparcl.figures.palette import series_class
from sparcl.instant.page.subject import Subject
from sparcl.instant.photo_doctor import in_short
from sparcl.report.page.parts import Section, grid, note, percent
from sparcl.wording import counted


def section(subject: Subject) -> Section:
    state = subject.state
    judged = state.judgement()
    learned, classes = int(state.kept.learned.sum()), state.about.classes
    lead = (
        f"{counted(learned, 'picture')} of {counted(len(classes), 'class', 'classes')}, seen by the "
        f"backbone {state.about.backbone} at {state.about.size}x{state.about.size} pixels."
    )
    count = sum(count for _, count in judged.held_out.values())
    big = element("p", element("strong", percent(judged.accuracy, 1)), _judged(subject, count), class_="big")
    card = element("div", big, element("dl", *_facts(subject)), class_=f"card {series_class(0)}")
    notes = [note(line) for line in in_short(subject.examination)]
    return Section("overview", "What it knows", lead, join(grid(card), *notes))


def _judged(subject: Subject, count: int) -> str:
    if not count:
        return "No picture can be judged yet: learn two classes of two pictures at least."
    if subject.state.upper:
        return f"of {counted(count, 'picture')} that deep learning has not seen are right"
    return f"of {counted(count, 'picture')} are right, each judged by all the others"


def _facts(subject: Subject) -> list[Markup]:
    state, calibration = subject.state, subject.state.head.calibration
    error = None if calibration.error is None else 100 * calibration.error
    facts = {
        "classes": f"{len(state.about.classes):,}",
        "pictures kept": f"{int(state.kept.learned.sum()):,}",
        "confidence is off by": "-" if error is None else f"{error:.1f} points",
        "says unknown": "yes" if calibration.threshold is not None else "not yet",
        "learning sessions": f"{state.history[-1].number if state.history else 0:,}",
    }
    return [element("div", element("dt", name), element("dd", value)) for name, value in facts.items()]
