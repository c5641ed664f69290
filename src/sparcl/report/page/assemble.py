"""The whole page: a single file that asks nothing of the network.

Its security policy allows exactly the style and the script that are written into it, by their digests, and pictures
that are part of it. A live page may in addition ask the server it came from.
"""

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files

from sparcl.figures.markup import Markup, element, join
from sparcl.figures.palette import stylesheet
from sparcl.report.measures import views
from sparcl.report.page import accuracy, buffer, confusion, costs, details, overview, sparsity
from sparcl.report.page.parts import Section
from sparcl.report.run_record import RunRecord


def sections(runs: Sequence[RunRecord], notes: Sequence[str] = ()) -> list[Section]:
    """`notes`: what else the reader must know, for example of runs that could not be read."""
    shown = views(runs)
    found = [overview.section(shown, notes)]
    if shown:
        makers = (accuracy, sparsity, costs, confusion, buffer, details)
        found += [maker.section(shown) for maker in makers]
    return found


def page(title: str, content: Sequence[Section], live: bool = False) -> str:
    style, script = _style(), _resource("page.js")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy(live)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("link", rel="icon", href="data:,"),  # or a browser asks the server for one
        element("title", title),
        element("style", Markup(style)),
    )
    body = element(
        "body",
        element(
            "header",
            element("div", element("h1", title), _status(live), class_="title"),
            element(
                "nav", *(element("a", part.title, href=f"#{part.name}") for part in content), aria_label="Sections"
            ),
            element("button", "Theme", id="theme", type="button", title="Light, dark, or as the system"),
            class_="top",
        ),
        element("main", *(element("section", part.html, id=part.name, data_digest=part.digest) for part in content)),
        element("div", id="tip", role="status", hidden=""),
        element("script", Markup(script)),
        data_live="yes" if live else None,
    )
    return "<!doctype html>\n" + element("html", head, body, lang="en") + "\n"


def _status(live: bool) -> Markup:
    return element("p", "live", id="live", role="status") if live else join()


def policy(live: bool) -> str:
    parts = [
        "default-src 'none'",
        f"style-src '{_digest(_style())}'",
        f"script-src '{_digest(_resource('page.js'))}'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join([*parts, "connect-src 'self'"] if live else parts)


def _style() -> str:
    return stylesheet() + "\n" + _resource("page.css")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _resource(name: str) -> str:
    return (files("sparcl.report.page") / name).read_text("utf-8")
