"""How weights, gradients and samples came and went over time."""

from collections.abc import Callable, Sequence

import numpy as np

from sparcl.report.events import Adjustment, Epoch, LayerChange
from sparcl.report.figures.heatmap import Heatmap
from sparcl.report.figures.lines import Line, LinePlot
from sparcl.report.markup import Markup, element, join
from sparcl.report.measures import RunView
from sparcl.report.page.parts import Section, grid, legend, note, plot, run_tag

Value = Callable[[Epoch], float | None]


def section(views: Sequence[RunView]) -> Section:
    begun = [view for view in views if view.run.history.epochs]
    if not begun:
        return Section("time", "Over time", "", note("No epoch has ended yet."))
    plots = [
        _over_time(begun, "Training loss", "mean of the epoch", lambda epoch: epoch.loss, "", (0, 0.1)),
        _over_time(begun, "Training accuracy", "of the epoch, %", lambda epoch: epoch.train_accuracy, "%", (0, 100)),
        _samples_left(begun),
        _over_time(begun, "Density", "active weights of the sparse layers, %", _density, "%", (0, 1)),
        _over_time(begun, "Weights updated", "of the sparse layers, %", _updated, "%", (0, 1)),
        _exchanged(begun),
    ]
    content = [legend(begun), grid(*plots)]
    for view in begun:
        content.append(_layers(view))
    lead = "Every epoch of the run, from left to right; vertical lines divide the tasks. Dense runs stand at 100%."
    return Section("time", "Over time", lead, join(*content))


def _density(epoch: Epoch) -> float:
    return 100.0 if epoch.density is None else 100 * epoch.density


def _updated(epoch: Epoch) -> float:
    return 100.0 if epoch.gradient_density is None else 100 * epoch.gradient_density


def _over_time(
    views: Sequence[RunView], title: str, label: str, value: Value, unit: str, always: tuple[float, float]
) -> Markup:
    return _drawn([(view, value) for view in views], title, label, unit, always)


def _drawn(
    values: Sequence[tuple[RunView, Value]], title: str, label: str, unit: str, always: tuple[float, float]
) -> Markup:
    lines = []
    for view, value in values:
        epochs, per_task = view.run.history.epochs, view.run.settings.epochs
        x = [epoch.task + (epoch.epoch + 0.5) / per_task for epoch in epochs]
        names = [f"task {epoch.task + 1}, epoch {epoch.epoch + 1}" for epoch in epochs]
        gaps = [place for place, epoch in enumerate(epochs) if place and not epoch.epoch] if per_task > 1 else []
        lines.append(Line(view.name, x, [value(epoch) for epoch in epochs], view.series, names, gaps))
    tasks = max(view.run.history.epochs[-1].task + 1 for view, _ in values)
    ticks = [(task + 0.5, str(task + 1)) for task in range(tasks)]
    return plot(LinePlot(title, "task", label, lines, unit, always, ticks, rules=range(1, tasks)))


def _samples_left(views: Sequence[RunView]) -> Markup:
    """Each task begins with all of its samples, so its first epoch says how many that are."""

    def left(epoch: Epoch) -> float | None:
        whole = most[id(epoch)]
        return 100 * epoch.samples / whole if whole and epoch.samples is not None else None

    most = {}
    for view in views:
        first = {epoch.task: epoch.samples for epoch in reversed(view.run.history.epochs)}
        most |= {id(epoch): first[epoch.task] for epoch in view.run.history.epochs}
    return _over_time(views, "Samples left", "of the task's training samples, %", left, "%", (0, 100))


def _exchanged(views: Sequence[RunView]) -> Markup:
    """All adjustments of the masks in an epoch, those at its end included."""
    moved: dict[tuple[str, int, int], float] = {}
    for view in views:
        for move in view.run.history.adjustments:
            active = sum(layer.active for layer in move.layers.values())
            changed = sum(layer.removed + layer.grown for layer in move.layers.values())
            place = (view.name, move.task, move.epoch)
            moved[place] = moved.get(place, 0.0) + (100 * changed / active if active else 0.0)
    title, label = "Mask churn", "weights removed or grown, % of the active"
    lines = [(view, lambda epoch, name=view.name: moved.get((name, epoch.task, epoch.epoch), 0.0)) for view in views]
    return _drawn(lines, title, label, "%", (0, 1))


def _layers(view: RunView) -> Markup:
    moves = [move for move in view.run.history.adjustments if move.layers]
    if not moves:
        reason = "its network is dense" if view.run.dense else "its masks were chosen once and never moved"
        return element("p", run_tag(view), f" has no history of single layers: {reason}.", class_="note")
    layers = list(dict.fromkeys(name for move in moves for name in move.layers))
    density = _by_layer(view, moves, layers, "Density of each layer, %", lambda layer: 100 * layer.density)
    churn = _by_layer(view, moves, layers, "Weights removed or grown, % of the active", lambda layer: layer.churn)
    return join(element("h3", run_tag(view), ": each layer at each adjustment of the masks"), grid(density, churn, kind="wide"))


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
        tell=lambda row, column: f"{names[row]}, task {moves[column].task + 1}, epoch {moves[column].epoch + 1}: "
        f"{values[row, column]:.2f}%",
        cell=(38, 20),
    )
    scale = f"From {low:.2f}% (lightest) to {high:.2f}% (strongest)."
    body = element("div", drawn.svg(), class_="scroll", tabindex="0")
    return element("figure", element("h4", title), body, element("figcaption", scale), class_="matrix")
