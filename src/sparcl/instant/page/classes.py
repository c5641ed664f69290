"""The classes: some pictures of each, and how well it is recognised."""

import numpy as np

from sparcl.figures.markup import Markup, element, join
from sparcl.instant.page.subject import Subject
from sparcl.report.page.parts import Section, note
from sparcl.wording import counted

MAX_PICTURES = 400  # on the whole page, where the classes allow
MAX_OF_A_CLASS = 8
MAX_CLASSES = 200


def section(subject: Subject) -> Section:
    kept = subject.state.kept
    each = max(1, min(MAX_OF_A_CLASS, MAX_PICTURES // max(1, len(kept.classes))))
    figures = [_class(subject, label, each) for label in range(min(MAX_CLASSES, len(kept.classes)))]
    content = [element("div", *figures, class_="albums")]
    if len(kept.classes) > MAX_CLASSES:
        content.append(note(f"The first {MAX_CLASSES} of {len(kept.classes):,} classes are shown."))
    lead = "Some of the pictures that it keeps of each class, and how many of all of them are recognised."
    return Section("classes", "Classes", lead if kept.classes else "It knows no class yet.", join(*content))


def _class(subject: Subject, label: int, each: int) -> Markup:
    kept = subject.state.kept
    of_class = np.flatnonzero(kept.labels == label)
    shown = of_class[np.linspace(0, len(of_class) - 1, min(each, len(of_class))).round().astype(int)]
    told = [counted(len(of_class), "picture")]
    row = subject.examination.left_out.confusion[label]
    if row.sum():
        told.append(f"{100 * row[label] / row.sum():.1f}% right")
    wrong = np.where(np.arange(len(row)) == label, 0, row)
    if wrong.any():
        told.append(f"{wrong.max()} taken for {kept.classes[int(wrong.argmax())]}")
    denied = int((kept.labels == -1 - label).sum())
    if denied:
        told.append(f"{counted(denied, 'picture')} known not to be of it")
    return element(
        "figure",
        element("h3", kept.classes[label]),
        element("div", *(subject.thumbnail(int(place)) for place in shown), class_="thumbs"),
        element("figcaption", " · ".join(told)),
    )
