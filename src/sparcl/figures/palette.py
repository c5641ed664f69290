"""The colours, each for light and for dark pages, and how each kind of mark looks.

The series differ in hue and in lightness, so that readers who cannot tell red from green can tell them apart too; where
there are more series than colours, dashes make the difference.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

LIGHT, DARK = 0, 1

COLOURS: Mapping[str, tuple[str, str]] = {
    "page": ("#f5f6f8", "#0e1116"),
    "card": ("#ffffff", "#171b22"),
    "line": ("#dde1e7", "#2c333d"),
    "ink": ("#1b2026", "#e8ebef"),
    "muted": ("#5a6472", "#9ea8b5"),
    "heat": ("#0b5cad", "#58a6ff"),
    "miss": ("#c2410c", "#ff9350"),
    "series-0": ("#0b62c4", "#58a6ff"),
    "series-1": ("#c2410c", "#ff9350"),
    "series-2": ("#0a7d5a", "#4fd6a5"),
    "series-3": ("#a3287f", "#f58fd0"),
    "series-4": ("#7a5b00", "#e3c04d"),
    "series-5": ("#5b45c9", "#b6a6ff"),
    "series-6": ("#0e7490", "#4dd2ea"),
    "series-7": ("#4b5563", "#b4bcc8"),
    # Text on a shade: black or white, in light and in dark, as `text_on` finds it.
    "on-bb": ("#000000", "#000000"),
    "on-bw": ("#000000", "#ffffff"),
    "on-wb": ("#ffffff", "#000000"),
    "on-ww": ("#ffffff", "#ffffff"),
}
SERIES = sum(name.startswith("series-") for name in COLOURS)
DASHES = ("", "7 4", "2 3", "9 3 2 3")  # of each further round through the colours
OWN = "series"  # the colour of the series that a mark belongs to


@dataclass(frozen=True)
class Look:
    """How a kind of mark is painted; `fill` and `stroke` name colours."""

    fill: str | None = None
    stroke: str | None = None
    width: float = 1.0  # of the stroke
    opacity: float = 1.0
    dashes: str = ""
    bold: bool = False


LOOKS: Mapping[str, Look] = {
    "heading": Look(fill="ink", bold=True),
    "label": Look(fill="ink"),
    "axis": Look(fill="muted", bold=True),
    "tick": Look(fill="muted"),
    "gridline": Look(stroke="line"),
    "baseline": Look(stroke="muted"),
    "rule": Look(stroke="muted", opacity=0.35, dashes="2 3"),
    "level": Look(stroke="ink", dashes="5 4"),
    "leader": Look(stroke="ink", width=0.5),
    "stroke": Look(stroke=OWN, width=2.2),
    "thin": Look(stroke=OWN),
    "dashed": Look(stroke=OWN, dashes="5 4"),
    "dot": Look(fill=OWN),
    "ring": Look(fill="card", stroke=OWN),
    "area": Look(fill=OWN, stroke=OWN, opacity=0.75),
    "hit": Look(fill="heat"),
    "miss": Look(fill="miss"),
    "frame": Look(fill="card", stroke="line"),
}


def stylesheet() -> str:
    """Colours as CSS variables and looks as classes; a dark page is one whose system or whose reader asks for it."""
    light, dark = (";".join(f"--{name}:{pair[side]}" for name, pair in COLOURS.items()) for side in (LIGHT, DARK))
    rules = [
        f":root{{color-scheme:light;{light}}}",
        f'@media(prefers-color-scheme:dark){{:root:not([data-theme="light"]){{color-scheme:dark;{dark}}}}}',
        f':root[data-theme="dark"]{{color-scheme:dark;{dark}}}',
        *(f".series-{number}{{--series:var(--series-{number})}}" for number in range(SERIES)),
        *(f".{name}{{fill:var(--{name})}}" for name in COLOURS if name.startswith("on-")),
    ]
    for name, look in LOOKS.items():
        painted = attributes(look, lambda colour: f"var(--{colour})")
        rules.append(f".{name}{{" + ";".join(f"{key}:{value}" for key, value in painted.items()) + "}")
    return "\n".join(rules)


def file_attributes(name: str, series: int) -> dict[str, str]:
    """How a mark looks in a file of its own, which is light."""
    return attributes(LOOKS[name], lambda colour: colour_in_file(colour, series))


def colour_in_file(name: str, series: int) -> str:
    return COLOURS[series_class(series) if name == OWN else name][LIGHT]


def attributes(look: Look, colour: Callable[[str], str]) -> dict[str, str]:
    """The same in SVG and in CSS."""
    found = {"fill": colour(look.fill) if look.fill else "none"}
    if look.opacity < 1:
        found["fill-opacity" if look.fill else "stroke-opacity"] = f"{look.opacity:g}"
    if look.stroke:
        found |= {"stroke": colour(look.stroke), "stroke-width": f"{look.width:g}"}
    if look.dashes:
        found["stroke-dasharray"] = look.dashes
    if look.bold:
        found["font-weight"] = "600"
    return found


def text_on(name: str, opacity: float) -> str:
    """The colour of text that can be read best on a shade of another colour, on a light and on a dark page."""
    choice = ""
    for side in (LIGHT, DARK):
        above, below = _channels(COLOURS[name][side]), _channels(COLOURS["card"][side])
        shade = _luminance([opacity * a + (1 - opacity) * b for a, b in zip(above, below, strict=True)])
        choice += "b" if (shade + 0.05) / 0.05 > 1.05 / (shade + 0.05) else "w"
    return f"on-{choice}"


def _channels(colour: str) -> list[float]:
    return [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]


def _luminance(channels: Sequence[float]) -> float:
    """Relative luminance as the guidelines for accessible pages (WCAG) define it."""
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def series_class(number: int) -> str:
    return f"series-{number % SERIES}"


def dashes(number: int) -> str | None:
    return DASHES[number // SERIES % len(DASHES)] or None
