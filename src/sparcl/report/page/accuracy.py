"""What is remembered: accuracy and forgetting after each task, and the accuracy matrices."""

from collections.abc import Sequence

import numpy as np

from sparcl.report.figures.heatmap import Heatmap
from sparcl.report.figures.lines import Line, LinePlot
from sparcl.report.markup import Markup, element, join
from sparcl.report.measures import RunView, after_each_task
from sparcl.report.page.parts import Section, grid, hidden, legend, note, percent, plot, run_tag, table
from sparcl.report.run_record import KINDS, SNAPSHOTS


def section(views: Sequence[RunView]) -> Section:
    kinds = [kind for kind in KINDS if any(kind in view.run.kinds and view.run.learned_rows(kind) for view in views)]
    if not kinds:
        return Section("accuracy", "Accuracy", "", note("No task has been learned yet."))
    plots = [_over_tasks(views, kind) for kind in kinds] + [_forgetting(views, kinds[0])]
    content = [legend(views), grid(*plots), _numbers(views, kinds)]
    columns = "wide" if max(view.run.tasks for view in views) <= 12 else "huge"
    told = "accuracy on each task (column) after learning each task (row)"
    matrices = {kind: [_matrix(view, kind) for view in views if kind in view.run.kinds] for kind in kinds}
    if len(views) == 1:
        content.append(element("h3", f"{told[0].upper()}{told[1:]}"))
        content.append(grid(*(drawn for kind in kinds for drawn in matrices[kind]), kind=columns))
    else:
        for kind in kinds:
            content += [element("h3", f"{KINDS[kind]}: {told}"), grid(*matrices[kind], kind=columns)]
    averaged = any(kind + SNAPSHOTS in view.run.accuracy for view in views for kind in kinds)
    lead = "How well the tasks are done after each of them was learned, on images that were not trained with."
    if averaged:
        lead += " Accuracies are means over the snapshots in the last steps of a task."
    return Section("accuracy", "Accuracy", lead, join(*content))


def _over_tasks(views: Sequence[RunView], kind: str) -> Markup:
    lines = []
    for view in views:
        if kind in view.run.kinds:
            points = after_each_task(view.run, kind)
            lines.append(
                Line(view.name, [task + 1 for task, _, _ in points], [mean for _, mean, _ in points], view.series)
            )
    name = KINDS[kind]
    return plot(
        LinePlot(f"{name} accuracy", "tasks learned", "mean over these tasks, %", lines, "%", (0, 100), _ticks(views))
    )


def _forgetting(views: Sequence[RunView], kind: str) -> Markup:
    lines = []
    for view in views:
        if kind in view.run.kinds:
            points = after_each_task(view.run, kind)
            lines.append(
                Line(view.name, [task + 1 for task, _, _ in points], [lost for _, _, lost in points], view.series)
            )
    title = f"Forgetting ({KINDS[kind]})"
    return plot(LinePlot(title, "tasks learned", "fall from the best, points", lines, "", (0, 10), _ticks(views)))


def _ticks(views: Sequence[RunView]) -> list[tuple[float, str]]:
    return [(task + 1, str(task + 1)) for task in range(max((view.run.tasks for view in views), default=1))]


def _numbers(views: Sequence[RunView], kinds: Sequence[str]) -> Markup:
    headings = [
        "run",
        "tasks learned",
        *(text for kind in kinds for text in (KINDS[kind], f"{KINDS[kind]} forgetting")),
    ]
    rows = []
    for view in views:
        found = {kind: {task: rest for task, *rest in after_each_task(view.run, kind)} for kind in view.run.kinds}
        for task in sorted({task for points in found.values() for task in points}):
            cells = [found.get(kind, {}).get(task, [None, None]) for kind in kinds]
            rows.append([run_tag(view), str(task + 1), *(percent(value) for pair in cells for value in pair)])
    return hidden("The numbers", table(headings, rows), "accuracy-numbers")


def _matrix(view: RunView, kind: str) -> Markup:
    matrix = view.run.judged(kind)
    values = np.where(np.tri(matrix.tasks, dtype=bool), matrix.rows, np.nan)
    names = [str(task + 1) for task in range(matrix.tasks)]
    drawn = Heatmap(
        title=f"{KINDS[kind]} accuracy matrix of {view.name}",
        values=values,
        rows=names,
        columns=names,
        row_title="after task",
        column_title="accuracy on task, %",
        shade=lambda accuracy: 0.05 + 0.95 * accuracy / 100,
        number=lambda accuracy: f"{accuracy:.0f}",
        cell=(min(56, max(26, 290 / matrix.tasks)), 28),
        tell=lambda row, column: f"after task {row + 1}, task {column + 1}: {values[row, column]:.2f}%",
    )
    name = element("h4", run_tag(view), f" {KINDS[kind]}")
    return element("figure", name, element("div", drawn.svg(), class_="scroll", tabindex="0"), class_="matrix")
