"""How weights, gradients and samples came and went over time."""

from collections.abc import Callable, Sequence

import numpy as np

from sparcl.figures.heatmap import Heatmap
from sparcl.figures.lines import Line, LinePlot
from sparcl.figures.markup import Markup, element, join
from sparcl.report.events import Adjustment, Epoch, LayerChange
from sparcl.report.measures import RunView
from sparcl.report.page.parts import Section, grid, legend, note, note_on, plot, run_tag

Value = Callable[[Epoch], float | None]


def section(views: Sequence[RunView]) -> Section:
    begun = [view for view in views if view.run.history.epochs]
    if not begun:
        return Section("time", "Over time", "", note("No epoch has ended yet."))
    joined = any(view.run.settings.epochs == 1 for view in begun)  # single points would not be seen

    def lines(title: str, label: str, value: Value, unit: str, always: tuple[float, float]) -> Markup:
        return _over_time(begun, title, label, lambda _, epoch: value(epoch), unit, always, joined)

    plots = [
        lines("Training loss", "mean of the epoch", lambda epoch: epoch.loss, "", (0, 0.1)),
        lines("Training accuracy", "of the epoch, %", lambda epoch: epoch.train_accuracy, "%", (0, 100)),
        _samples_left(begun, joined),
        lines("Density", "active weights of the sparse layers, %", _density, "%", (0, 1)),
        lines("Weights updated", "of the sparse layers, %", _updated, "%", (0, 1)),
        _churn(begun),
    ]
    content = [legend(begun), grid(*plots)]
    moving = [view for view in begun if any(move.layers for move in view.run.history.adjustments)]
    content += [_layers(view) for view in moving]
    still = [view for view in begun if view not in moving]
    content.append(note_on([view for view in still if view.run.dense], "dense: there are no masks."))
    content.append(note_on([view for view in still if not view.run.dense], "the masks did not move."))
    lead = "Every epoch of the run, from left to right; vertical lines divide the tasks. Dense runs stand at 100%."
    return Section("time", "Over time", lead, join(*content))


def _density(epoch: Epoch) -> float:
    return 100.0 if epoch.density is None else 100 * epoch.density


def _updated(epoch: Epoch) -> float:
    return 100.0 if epoch.gradient_density is None else 100 * epoch.gradient_density


def _over_time(
    views: Sequence[RunView],
    title: str,
    label: str,
    value: Callable[[RunView, Epoch], float | None],
    unit: str,
    always: tuple[float, float],
    joined: bool = False,
) -> Markup:
    """`always`: values that the axis covers in any case. `joined`: lines go on from one task to the next."""
    lines = []
    for view in views:
        per_task = view.run.settings.epochs
        points = [(epoch, value(view, epoch)) for epoch in view.run.history.epochs]
        known = [(epoch, y) for epoch, y in points if y is not None]
        lines.append(
            Line(
                view.name,
                [epoch.task + (epoch.epoch + 0.5) / per_task for epoch, _ in known],
                [y for _, y in known],
                view.series,
                [f"task {epoch.task + 1}, epoch {epoch.epoch + 1}" for epoch, _ in known],
                [] if joined else [place for place, (epoch, _) in enumerate(known) if place and not epoch.epoch],
            )
        )
    tasks = max(view.run.history.epochs[-1].task + 1 for view in views)
    ticks = [(task + 0.5, str(task + 1)) for task in range(tasks)]
    return plot(LinePlot(title, "task", label, lines, unit, always, ticks, rules=range(1, tasks)))


def _samples_left(views: Sequence[RunView], joined: bool) -> Markup:
    """Each task begins with all of its samples, so its first epoch says how many that are."""
    most = {(view.series, epoch.task): epoch.samples for view in views for epoch in reversed(view.run.history.epochs)}

    def left(view: RunView, epoch: Epoch) -> float | None:
        whole = most[view.series, epoch.task]
        return 100 * epoch.samples / whole if whole and epoch.samples is not None else None

    return _over_time(views, "Samples left", "of the task's training samples, %", left, "%", (0, 100), joined)


def _churn(views: Sequence[RunView]) -> Markup:
    """All adjustments of an epoch together, those at its end included; where there were none there is no point."""
    moved: dict[tuple[int, int, int], float] = {}
    for view in views:
        for move in view.run.history.adjustments:
            active = sum(layer.active for layer in move.layers.values())
            changed = sum(layer.removed + layer.grown for layer in move.layers.values())
            if active:
                place = (view.series, move.task, move.epoch)
                moved[place] = moved.get(place, 0.0) + 100 * changed / active

    def share(view: RunView, epoch: Epoch) -> float | None:
        return moved.get((view.series, epoch.task, epoch.epoch))

    return _over_time(views, "Mask churn", "weights removed or grown, % of the active", share, "%", (0, 1), joined=True)


def _layers(view: RunView) -> Markup:
    moves = [move for move in view.run.history.adjustments if move.layers]
    layers = list(dict.fromkeys(name for move in moves for name in move.layers))
    density = _by_layer(view, moves, layers, "Density of each layer, %", lambda layer: 100 * layer.density)
    churn = _by_layer(view, moves, layers, "Weights removed or grown, % of the active", lambda layer: layer.churn)
    return join(
        element("h3", run_tag(view), ": each layer at each adjustment of the masks"), grid(density, churn, kind="wide")
    )


def _by_layer(
    view: RunView,
    moves: Sequence[Adjustment],
    layers: Sequence[str],
    title: str,
    value: Callable[[LayerChange], float],
) -> Markup:
    values = np.full((len(layers), len(moves)), np.nan)
    for column, move in enumerate(moves):
        for name, layer in move.layers.items():
            values[layers.index(name), column] = value(layer)
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    names = [name.removesuffix(".weight") for name in layers]
    drawn = Heatmap(
        title=f"{title}, {view.name}",
        values=values,
        rows=names,
        columns=[f"{move.task + 1}.{move.epoch + 1}" for move in moves],
        row_title="layer",
        column_title="adjustment (task.epoch)",
        shade=lambda share: 0.12 + 0.88 * (share - low) / (high - low) if high > low else 0.5,
        number=lambda share: f"{share:.1f}" if len(moves) <= 12 else "",
        tell=lambda row, column: (
            f"{names[row]}, task {moves[column].task + 1}, epoch {moves[column].epoch + 1}: {values[row, column]:.2f}%"
        ),
        cell=(38, 20),
        largest=400,
    )
    scale = f"From {low:.2f}% (lightest) to {high:.2f}% (strongest)." if high > low else f"{low:.2f}% everywhere."
    body = element("div", drawn.svg(), class_="scroll", tabindex="0")
    return element("figure", element("h4", title), body, element("figcaption", scale), class_="matrix")
