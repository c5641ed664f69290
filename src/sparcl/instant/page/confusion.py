"""Which class is taken for which, with pictures that were."""

import numpy as np

from sparcl.figures.markup import Markup, element, join
from sparcl.instant.page.subject import Subject
from sparcl.report.page.confusion import matrix, mix_ups
from sparcl.report.page.parts import Section, grid, note

MAX_PAIRS = 8
MAX_EXAMPLES = 6


def section(subject: Subject) -> Section:
    left_out, names = subject.examination.left_out, subject.state.about.classes
    if not len(left_out.labels):
        return Section("confusion", "Confusion", "", note("There are too few pictures to tell what is confused."))
    counts = left_out.confusion
    body = matrix("Confusion of classes", counts, names)
    figure = element("figure", body, mix_ups(counts, names), class_="matrix")
    pairs = [element("h3", "What is confused with what"), element("div", *_pairs(subject), class_="albums")]
    lead = (
        "Of the pictures of a class (row), the share that is taken for each class (column), each judged by all the "
        "others. Blue is right, orange is wrong; the shade of errors grows with their square root, so that rare ones "
        "can be seen."
    )
    wrong = int(counts.sum() - np.trace(counts))
    return Section("confusion", "Confusion", lead, join(grid(figure, kind="wide"), *(pairs if wrong else [])))


def _pairs(subject: Subject) -> list[Markup]:
    """The pairs of classes that are mixed up most often, in either direction."""
    counts = subject.examination.left_out.confusion
    both = np.triu(counts + counts.T, 1)
    order = np.argsort(-both, axis=None, kind="stable")[:MAX_PAIRS]
    pairs = [divmod(int(place), len(counts)) for place in order if both.flat[place]]
    return [_pair(subject, one, other) for one, other in pairs]


def _pair(subject: Subject, one: int, other: int) -> Markup:
    left_out, names = subject.examination.left_out, subject.state.about.classes
    parts = [element("h3", f"{names[one]} and {names[other]}")]
    for true, taken in ((one, other), (other, one)):
        rows = np.flatnonzero((left_out.labels == true) & (left_out.answers == taken))
        if not len(rows):
            continue
        surest = rows[np.argsort(-left_out.confidences[rows], kind="stable")][:MAX_EXAMPLES]
        thumbs = [
            subject.thumbnail(int(left_out.places[row]), f"{names[taken]} {100 * left_out.confidences[row]:.0f}%")
            for row in surest
        ]
        of_all = int((left_out.labels == true).sum())
        parts.append(element("p", f"{len(rows)} of {of_all} {names[true]} taken for {names[taken]}", class_="told"))
        parts.append(element("div", *thumbs, class_="thumbs"))
    return element("figure", *parts)
