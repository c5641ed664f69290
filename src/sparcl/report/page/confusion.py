"""Which class is taken for which."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sparcl.figures.heatmap import Heatmap
from sparcl.figures.markup import Markup, element, join
from sparcl.report.measures import RunView
from sparcl.report.page.parts import Section, grid, note, note_on, percent, run_tag, table
from sparcl.report.run_record import KINDS

LISTED = 5  # hardest classes, and most frequent mix-ups


def section(views: Sequence[RunView]) -> Section:
    known = [view for view in views if view.run.confusion is not None and view.run.confusion.any()]
    content = [grid(*map(_confusion, known), kind=_columns(known))] if known else []
    missing = [view for view in views if view not in known]
    old = [view for view in missing if view.run.learned]
    content.append(note_on(old, "recorded no confusion matrix: older versions did not."))
    content.append(note_on([view for view in missing if view not in old], "learned no task yet."))
    lead = (
        "Of the images of a class (row), the share that is taken for each class (column), after the newest task. Blue "
        "is right, orange is wrong; the shade of errors grows with their square root, so that rare ones can be seen."
    )
    return Section("confusion", "Classes", lead if known else "", join(*content))


def _columns(views: Sequence[RunView]) -> str:
    return "wide" if max(len(view.run.class_names) for view in views) <= 10 else "huge"


def _confusion(view: RunView) -> Markup:
    counts, names = view.run.confusion, view.run.class_names
    assert counts is not None
    kind = element("p", f"{KINDS[view.run.confusion_kind]}, single evaluation", class_="path")
    body = matrix(f"Confusion of {view.name}", counts, names)
    return element("figure", run_tag(view), kind, body, mix_ups(counts, names), class_="matrix")


def matrix(title: str, counts: NDArray[np.int64], names: Sequence[str]) -> Markup:
    """Counts [true class, answer] as shades."""
    images = counts.sum(axis=1, keepdims=True)
    shares = np.where(images > 0, 100 * counts / np.maximum(images, 1), np.nan)
    missed = ~np.eye(len(counts), dtype=bool)
    # An error of 1% is 10% opaque, a right answer of 1% is 1%: the sign tells the shades apart.
    signed = np.where(missed, -shares, shares)
    drawn = Heatmap(
        title=title,
        values=signed,
        rows=names,
        columns=names,
        row_title="true class",
        column_title="taken for",
        shade=lambda share: (abs(share) / 100) ** 0.5 if share <= 0 else share / 100,
        number=lambda share: f"{abs(share):.0f}" if abs(share) >= 0.5 else "",
        tell=lambda row, column: (
            f"{names[row]} taken for {names[column]}: "
            f"{counts[row, column]} of {images[row, 0]} ({shares[row, column]:.1f}%)"
        ),
        missed=missed,
        cell=(min(50, max(24, 280 / len(names))), 24),
        readout=counts,
        longest_label=20 if len(names) <= 20 else 12,
    )
    return element("div", drawn.svg(), class_="scroll", tabindex="0")


def mix_ups(counts: NDArray[np.int64], names: Sequence[str]) -> Markup:
    """The hardest classes, and the most frequent mix-ups."""
    images, right = counts.sum(axis=1), np.diagonal(counts)
    present = np.flatnonzero(images)
    hardest = present[np.argsort(right[present] / images[present], kind="stable")][:LISTED]
    errors = counts.copy()
    np.fill_diagonal(errors, 0)
    order = np.argsort(-errors, axis=None, kind="stable")[:LISTED]
    mixed = [(row, column) for row, column in zip(*np.unravel_index(order, errors.shape), strict=True)]
    rows = [[names[label], percent(100 * right[label] / images[label], 1)] for label in hardest]
    pairs = [[f"{names[i]} → {names[j]}", str(errors[i, j])] for i, j in mixed if errors[i, j]]
    lists = [table(["hardest", "right"], rows)]
    lists.append(table(["mix-ups", "images"], pairs) if pairs else note("No image is taken for another class."))
    return element("div", *lists, class_="pair")
