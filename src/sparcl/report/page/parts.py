"""What the sections are made of."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from sparcl.figures import legend as legend_of_figures
from sparcl.figures import svg
from sparcl.figures.lines import LinePlot
from sparcl.figures.markup import Markup, element, join
from sparcl.report.measures import RunView

UNKNOWN = "-"
TIMES = "\N{MULTIPLICATION SIGN}"
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Section:
    name: str  # its place in the page: #name
    title: str
    lead: str  # one sentence that says what is to be seen
    content: Markup

    @cached_property
    def html(self) -> Markup:
        return join(element("h2", self.title), element("p", self.lead, class_="lead"), self.content)

    @cached_property
    def digest(self) -> str:
        """Tells a live page whether it has to be drawn again."""
        return hashlib.sha256(f"{self.title} {self.html}".encode(errors="replace")).hexdigest()[:16]


def run_tag(view: RunView) -> Markup:
    """The name of a run with its colour."""
    return element("span", swatch(view.series), view.name, class_="run", title=str(view.run.path))


def swatch(series: int) -> Markup:
    marks = svg.for_page(legend_of_figures.swatch(legend_of_figures.Entry("", series)))
    return element("svg", *marks, viewBox=f"0 0 {legend_of_figures.SWATCH} 12", class_="swatch", aria_hidden="true")


def legend(views: Iterable[RunView]) -> Markup:
    return element("div", *(run_tag(view) for view in views), class_="legend")


def plot(figure: LinePlot, caption: str = "") -> Markup:
    """A line plot with its title above, and below it what has to be explained."""
    parts = [element("h3", figure.title), figure.svg()]
    if caption:
        parts.append(element("figcaption", caption))
    return element("figure", *parts)


def grid(*content: Markup, kind: str = "") -> Markup:
    """As many side by side as there is room for; `kind`: small, wide or huge ones."""
    return element("div", *content, class_=f"grid {kind}".strip())


def note(text: str) -> Markup:
    """Something that is missing, or must be known."""
    return element("p", text, class_="note")


def note_on(views: Sequence[RunView], text: str) -> Markup:
    """The same of several runs; nothing if there are none."""
    return element("p", *(join(run_tag(view), " ") for view in views), text, class_="note") if views else join()


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], numbers_from: int = 1) -> Markup:
    """It scrolls inside itself where it is too wide. The columns from `numbers_from` on hold numbers."""

    def kind(column: int) -> str | None:
        return "number" if column >= numbers_from else None

    head = [element("th", text, scope="col", class_=kind(column)) for column, text in enumerate(headings)]
    body = [
        element("tr", *(element("td", cell, class_=kind(column)) for column, cell in enumerate(row))) for row in rows
    ]
    whole = element("table", element("thead", element("tr", *head)), element("tbody", *body))
    return element("div", whole, class_="scroll", tabindex="0")


def hidden(summary: str, content: Markup, name: str) -> Markup:
    """Opens when asked; `name` keeps it open when a live page is renewed."""
    return element("details", element("summary", summary), content, data_name=name)


def percent(value: float | None, digits: int = 2) -> str:
    return UNKNOWN if value is None else f"{value:.{digits}f}%"


def flops_text(value: float | None) -> str:
    """As a product with a power of ten."""
    if not value:
        return UNKNOWN if value is None else "0"
    digits, _, power = f"{value:.2e}".partition("e")
    return f"{digits} {TIMES} 10{str(int(power)).translate(SUPERSCRIPTS)}"


def seconds_text(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    if value < 100:
        return f"{value:.1f} s"
    hours, minutes = divmod(round(value / 60), 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{value / 60:.1f} min"


def memory_text(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f} MB"
