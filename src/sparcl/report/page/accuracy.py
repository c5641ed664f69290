"""What is remembered: accuracy and forgetting after each task, and the accuracy matrices."""

from collections.abc import Mapping, Sequence

import numpy as np

from sparcl.figures.heatmap import Heatmap
from sparcl.figures.lines import Line, LinePlot
from sparcl.figures.markup import Markup, element, join
from sparcl.report.measures import RunView, after_each_task
from sparcl.report.page.parts import Section, grid, hidden, legend, note, percent, plot, run_tag, table
from sparcl.report.run_record import KINDS, SNAPSHOTS


def section(views: Sequence[RunView]) -> Section:
    judged = {kind: [view for view in views if kind in _measured_kinds(view)] for kind in KINDS}
    kinds = [kind for kind in KINDS if judged[kind]]
    if not kinds:
        return Section("accuracy", "Accuracy", "", note("No task has been learned yet."))
    plots = [_mean_accuracy(judged[kind], kind) for kind in kinds] + [_forgetting(judged[kinds[0]], kinds[0])]
    content = [legend(views), grid(*plots), _numbers(views, kinds)]
    columns = "wide" if max(view.run.tasks for view in views) <= 12 else "huge"
    told = "accuracy on each task (column) after learning each task (row)"
    matrices = {kind: [_matrix(view, kind) for view in judged[kind]] for kind in kinds}
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


def _measured_kinds(view: RunView) -> list[str]:
    """A method that must be told the task has no Class-IL, for example."""
    return [kind for kind in view.run.kinds if view.run.learned_rows(kind)]


def _mean_accuracy(views: Sequence[RunView], kind: str) -> Markup:
    found = {view: [(task, mean) for task, mean, _ in after_each_task(view.run, kind)] for view in views}
    return _over_tasks(found, f"{KINDS[kind]} accuracy", "mean over these tasks, %", "%", (0, 100))


def _forgetting(views: Sequence[RunView], kind: str) -> Markup:
    found = {view: [(task, lost) for task, _, lost in after_each_task(view.run, kind)] for view in views}
    return _over_tasks(found, f"Forgetting ({KINDS[kind]})", "fall from the best, points", "", (0, 10))


def _over_tasks(
    found: Mapping[RunView, Sequence[tuple[int, float | None]]],
    title: str,
    label: str,
    unit: str,
    always: tuple[float, float],
) -> Markup:
    lines = [
        Line(view.name, [task + 1 for task, _ in points], [value for _, value in points], view.series)
        for view, points in found.items()
    ]
    ticks = [(task + 1, str(task + 1)) for task in range(max(view.run.tasks for view in found))]
    return plot(LinePlot(title, "tasks learned", label, lines, unit, always, ticks))


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
