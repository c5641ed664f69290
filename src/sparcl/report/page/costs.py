"""FLOPs, time and memory, against the dense network."""

from collections.abc import Callable, Sequence

from sparcl.figures.markup import Markup, element, join
from sparcl.figures.palette import series_class
from sparcl.figures.scale import short
from sparcl.report.measures import FULL_FLOPS, MEMORY, PAPER_FLOPS, TRAINING_TIME, Cost, RunView
from sparcl.report.page.parts import (
    Section,
    flops_text,
    grid,
    hidden,
    memory_text,
    note,
    note_on,
    run_tag,
    seconds_text,
    table,
)
from sparcl.report.run_record import RunRecord

SHOWN = ((FULL_FLOPS, flops_text), (PAPER_FLOPS, flops_text), (TRAINING_TIME, seconds_text), (MEMORY, memory_text))


def section(views: Sequence[RunView]) -> Section:
    known = [view for view in views if view.run.costs is not None]
    if not known:
        return Section("costs", "Costs", "", note("Costs are known when a run ends, or at its first checkpoint."))
    content = [
        _comparable(known),
        grid(*(_card(cost, text, known) for cost, text in SHOWN), kind="small"),
        _phases(known),
    ]
    silent = [view for view in views if view.run.costs is None or view.run.costs.flops is None]
    content.append(note_on(silent, "counted no FLOPs."))
    lead = "What the training took. Sparse runs are compared with the dense run of the same method, where there is one."
    return Section("costs", "Costs", lead, join(*content))


def _comparable(views: Sequence[RunView]) -> Markup:
    threads = {view.run.settings.threads for view in views}
    machines = {str(view.run.environment.get("processor")) for view in views}
    if len(threads) > 1 or len(machines) > 1:
        return note("These runs had different processors or numbers of threads: their times cannot be compared.")
    return join()


def _card(cost: Cost, text: Callable[[float | None], str], views: Sequence[RunView]) -> Markup:
    runs = [view.run for view in views]
    largest = max((cost.measure(run) or 0.0 for run in runs), default=0.0)
    rows = [_row(cost, text, view, runs, largest) for view in views]
    return element("figure", element("h3", cost.title), *rows, element("figcaption", cost.caption), class_="bars")


def _row(
    cost: Cost, text: Callable[[float | None], str], view: RunView, runs: Sequence[RunRecord], largest: float
) -> Markup:
    value = cost.measure(view.run)
    share = value / largest if value and largest else 0.0
    bar = element(
        "svg",
        element("rect", width="100%", height=8, rx=4, class_="track"),
        element("rect", width=f"{100 * share:.1f}%", height=8, rx=4, class_="fill"),
        class_=f"bar {series_class(view.series)}",
        aria_hidden="true",
    )
    told = element("span", element("strong", text(value)), _against_dense(cost, view.run, runs), class_="told")
    return element("div", run_tag(view), told, bar, class_="row")


def _against_dense(cost: Cost, run: RunRecord, runs: Sequence[RunRecord]) -> str:
    found = cost.share_of_dense(run, runs)
    if found is None:
        return " dense" if run.dense else ""
    share, planned = found
    return f" {share:.1f}% of dense" + (" (planned)" if planned else "")


def _phases(views: Sequence[RunView]) -> Markup:
    seconds = list(dict.fromkeys(phase for view in views if view.run.costs for phase in view.run.costs.seconds))
    counted = [view for view in views if view.run.costs and view.run.costs.flops]
    phases = list(
        dict.fromkeys(
            phase
            for view in counted
            if view.run.costs and view.run.costs.flops
            for phase, count in view.run.costs.flops.full.phases.items()
            if count
        )
    )
    time_rows = [
        [run_tag(view), *(short(round(view.run.costs.seconds.get(phase, 0.0), 2)) for phase in seconds)]
        for view in views
        if view.run.costs
    ]
    flop_rows = [
        [run_tag(view), *(flops_text(view.run.costs.flops.full.phases.get(phase, 0)) for phase in phases)]
        for view in counted
        if view.run.costs and view.run.costs.flops
    ]
    both = join(
        element("h4", "Seconds of each phase"),
        table(["run", *seconds], time_rows),
        element("h4", "FLOPs of each phase"),
        table(["run", *(phase.replace("_", " ") for phase in phases)], flop_rows),
    )
    return hidden("Phase by phase", both, "phases")
