"""What was run, and the numbers that matter most."""

from collections.abc import Sequence

from sparcl.figures.markup import Markup, element, join
from sparcl.figures.palette import series_class
from sparcl.learning.settings import learns_all_tasks_at_once
from sparcl.report.measures import FULL_FLOPS, MEMORY, TRAINING_TIME, RunView, leading_kind, newest
from sparcl.report.page.parts import (
    UNKNOWN,
    Section,
    flops_text,
    grid,
    memory_text,
    note,
    percent,
    run_tag,
    seconds_text,
    swatch,
    table,
)
from sparcl.report.run_record import KINDS, RunRecord

MAX_CARDS = 4  # more runs stand in a table
COSTS = (
    ("FLOPs", FULL_FLOPS, flops_text),
    ("time to train", TRAINING_TIME, seconds_text),
    ("peak memory", MEMORY, memory_text),
)
HEADINGS = (*KINDS.values(), "forgetting", *(heading for heading, _, _ in COSTS))


def section(views: Sequence[RunView], notes: Sequence[str]) -> Section:
    content = [note(text) for text in notes]
    content += [note(f"Warning: {view.name}: {line}") for view in views for line in view.run.warnings]
    if len(views) <= MAX_CARDS:
        content.append(grid(*(_card(view, [other.run for other in views]) for view in views)))
    elif views:
        measured = {view.series: _measures(view.run) for view in views}
        headings = [heading for heading in HEADINGS if any(heading in found for found in measured.values())]
        rows = [
            [
                run_tag(view),
                _state(view.run),
                *(_cell(view.run, heading, measured[view.series]) for heading in headings),
            ]
            for view in views
        ]
        content.append(table(["run", "state", *headings], rows, numbers_from=2))
    return Section("overview", "What was run", _lead([view.run for view in views]), join(*content))


def _lead(runs: Sequence[RunRecord]) -> str:
    if not runs:
        return "There is no run yet. This page fills as soon as one begins."

    def each(values: list[object]) -> str:
        return " or ".join(dict.fromkeys(str(value) for value in values))

    tasks = each([run.tasks for run in runs if run.tasks]) or "?"
    return (
        f"{each([run.settings.dataset for run in runs])} ({each([run.settings.protocol for run in runs])} protocol) in "
        f"{tasks} tasks of {each([run.settings.epochs for run in runs])} epochs, learned by "
        f"{each([run.settings.model for run in runs])} of width {each([run.settings.width for run in runs])}."
    )


def _measures(run: RunRecord) -> dict[str, str]:
    measures = {KINDS[kind]: percent(newest(run, kind)[0]) for kind in run.kinds}
    kind = leading_kind(run)
    measures["forgetting"] = percent(newest(run, kind)[1]) if kind else UNKNOWN
    for heading, cost, text in COSTS:
        measures[heading] = text(cost.measure(run))
    return measures


def _cell(run: RunRecord, heading: str, measures: dict[str, str]) -> str:
    """An accuracy over a part of the tasks is no match for one over all of them: it says so."""
    text = measures.get(heading, UNKNOWN)
    is_part = not run.finished and heading in (*KINDS.values(), "forgetting") and text != UNKNOWN
    return f"{text} ({_part(run)})" if is_part else text


def _part(run: RunRecord) -> str:
    return f"{run.learned} of {run.tasks or '?'} tasks"


def _card(view: RunView, runs: Sequence[RunRecord]) -> Markup:
    measures = _measures(view.run)
    shares = {heading: cost.share_of_dense(view.run, runs) for heading, cost, _ in COSTS}
    kind = leading_kind(view.run)
    first = KINDS[kind] if kind else None
    head = element("header", swatch(view.series), element("h3", view.name))
    if view.run.finished or first is None:
        headline = measures.pop(first) if first else UNKNOWN
        big = [element("strong", headline, data_measure="leading"), f" {first or ''} accuracy"]
    else:  # what it reached on its first tasks is below; next to finished runs it would mislead
        big = [element("strong", _part(view.run), data_measure="leading"), " learned so far"]
        measures = {f"{key} so far" if key in KINDS.values() else key: text for key, text in measures.items()}
    pairs = [
        element("div", element("dt", heading), element("dd", value, data_measure=heading), _share(shares.get(heading)))
        for heading, value in measures.items()
        if value != UNKNOWN
    ]
    place = element("p", str(view.run.path), class_="path")
    return element(
        "article",
        head,
        element("p", *big, class_="big"),
        element("dl", *pairs),
        _state(view.run),
        place,
        class_=f"card {series_class(view.series)}",
    )


def _share(share: tuple[float, bool] | None) -> Markup:
    if share is None:
        return join()
    percent, planned = share
    return element("dd", f"{percent:.1f}% of dense{' (planned)' if planned else ''}", class_="share")


def _state(run: RunRecord) -> Markup:
    """How far it is: words, and a bar while it runs."""
    if run.finished:
        return element("p", "finished", class_="state")
    history, epochs = run.history, run.settings.epochs
    if not history.epochs:
        return element("p", "begun", class_="state")
    last = history.epochs[-1]
    tasks = 1 if learns_all_tasks_at_once(run.settings) else run.tasks
    done = 1.0 if not tasks else min(1.0, (last.task + (last.epoch + 1) / epochs) / tasks)
    words = f"not finished: task {last.task + 1} of {tasks or '?'}, epoch {last.epoch + 1} of {epochs} done"
    bar = element(
        "svg",
        element("rect", width="100%", height=6, rx=3, class_="track"),
        element("rect", width=f"{100 * done:.1f}%", height=6, rx=3, class_="fill"),
        class_="progress",
        role="img",
        aria_label=f"{100 * done:.0f}% done",
    )
    return element("div", element("p", words), bar, class_="state")
