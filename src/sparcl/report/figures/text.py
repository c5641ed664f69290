"""Text in a drawing."""

from sparcl.report.markup import Markup, element


def label(text: str, x: float, y: float, anchor: str, class_: str = "tick", turn: str | None = None) -> Markup:
    return element("text", text, x=x, y=y, text_anchor=anchor, class_=class_, transform=turn)
