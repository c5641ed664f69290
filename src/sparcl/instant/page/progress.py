"""How it came to know that: its learning sessions; and whether more pictures would help."""

from sparcl.device.history import HistoryEntry
from sparcl.figures.lines import Line, LinePlot
from sparcl.figures.markup import element, join
from sparcl.figures.scale import thinned
from sparcl.instant.learning_curve import curve_text
from sparcl.instant.page.subject import Subject
from sparcl.report.page.parts import UNKNOWN, Section, grid, note, percent, plot, table

MAX_SESSIONS = 200
MAX_TICKS = 12


def section(subject: Subject) -> Section:
    curve, history = subject.examination.curve, subject.state.history
    plots = []
    if curve is not None:
        low, high = curve.expected
        twice = 2 * curve.pictures[-1]
        lines = [Line("measured", list(curve.pictures), list(curve.accuracy))]
        if curve.would_help:
            both = [curve.pictures[-1], twice]
            lines += [
                Line("carefully expected", both, [curve.accuracy[-1], low], series=1),
                Line("at best", both, [curve.accuracy[-1], high], series=2),
            ]
        figure = LinePlot(
            "Would more pictures help?",
            "pictures of a class",
            "accuracy, %",
            lines,
            unit="%",
            x_ticks=[(x, f"{x:.0f}") for x in (*curve.pictures, *([twice] if curve.would_help else []))],
        )
        plots.append(plot(figure, curve_text(curve)))
    judged = [entry for entry in history if entry.after.accuracy is not None]
    if len(judged) > 1:
        sessions = Line("all classes", [entry.number for entry in judged], [entry.after.accuracy for entry in judged])
        marked = [judged[place].number for place in thinned(len(judged), MAX_TICKS)]
        ticks = [(number, str(number)) for number in marked]
        figure = LinePlot("After each learning session", "session", "accuracy, %", [sessions], "%", x_ticks=ticks)
        plots.append(plot(figure, "More classes are harder to tell apart, so accuracy may fall as classes are added."))
    rows = [_row(entry) for entry in history[-MAX_SESSIONS:]]
    headings = ["session", "when (UTC)", "pictures", "seconds", "classes", "accuracy"]
    shown = element("figure", table(headings, rows, numbers_from=3)) if rows else note("Nothing is learned yet.")
    content = [*([grid(*plots)] if plots else []), element("h3", "Learning sessions"), shown]
    if len(history) > MAX_SESSIONS:
        content.append(note(f"The last {MAX_SESSIONS} of {len(history):,} sessions are shown."))
    lead = "What was learned when, and what the same number of pictures again would bring."
    return Section("progress", "Learning", lead, join(*content))


def _row(entry: HistoryEntry) -> list[str]:
    pictures = ", ".join(f"{name} {count:,}" for name, count in entry.pictures.items()) or UNKNOWN
    when, seconds = entry.when[:16].replace("T", " "), f"{entry.seconds:.1f}"
    return [
        str(entry.number),
        when,
        pictures,
        seconds,
        f"{len(entry.after.held_out):,}",
        percent(entry.after.accuracy, 1),
    ]
