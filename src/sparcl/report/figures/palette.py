"""The colours, each for light and for dark pages.

The series differ in hue and in lightness, so that they can be told apart without red and green too; where there are
many, dashes tell the rest apart.
"""

from collections.abc import Mapping, Sequence

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


def stylesheet(scope: str = ":root") -> str:
    """The colours as CSS variables; a dark page is one whose system or whose reader wishes it."""
    light, dark = (";".join(f"--{name}:{pair[side]}" for name, pair in COLOURS.items()) for side in (LIGHT, DARK))
    return (
        f"{scope}{{color-scheme:light;{light}}}\n"
        f'@media(prefers-color-scheme:dark){{{scope}:not([data-theme="light"]){{color-scheme:dark;{dark}}}}}\n'
        f'{scope}[data-theme="dark"]{{color-scheme:dark;{dark}}}\n' + _series_rules()
    )


def _series_rules() -> str:
    series = [f".series-{number}{{--series:var(--series-{number})}}" for number in range(SERIES)]
    texts = [f".{name}{{fill:var(--{name})}}" for name in COLOURS if name.startswith("on-")]
    return "\n".join(series + texts)


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
