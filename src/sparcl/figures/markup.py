"""HTML and SVG, put together so that nothing from outside can become markup.

`element` escapes everything except what it made itself: a plain `str` is always text, a `Markup` is markup already.
"""

from html import escape

_WITHOUT_CONTENT = {
    *("img", "meta", "link"),
    *("rect", "line", "circle", "path", "image", "use"),
}


class Markup(str):
    """Text that is markup: it is not escaped again."""

    __slots__ = ()


def element(name: str, /, *content: str, **attributes: str | float | None) -> Markup:
    """An element. `class_` is the attribute class, `stroke_width` is stroke-width; None leaves an attribute out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_attribute(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _WITHOUT_CONTENT and not content:
        return Markup(f"<{name}{written}/>")
    return Markup(f"<{name}{written}>{join(*content)}</{name}>")


def join(*content: str) -> Markup:
    return Markup("".join(part if isinstance(part, Markup) else escape(part) for part in content))


def _attribute(value: str | float) -> str:
    if isinstance(value, str):
        return value
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
