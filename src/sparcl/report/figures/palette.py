"""The colours, each for light and for dark pages.

The series differ in hue and in lightness, so that they can be told apart without red and green too; where there are
many, dashes tell the rest apart.
"""

from collections.abc import Mapping

LIGHT, DARK = 0, 1

COLOURS: Mapping[str, tuple[str, str]] = {
    "page": ("#f5f6f8", "#0e1116"),
    "card": ("#ffffff", "#171b22"),
    "line": ("#dde1e7", "#2c333d"),
    "ink": ("#1b2026", "#e8ebef"),
    "muted": ("#5a6472", "#9ea8b5"),
    "heat": ("#0b5cad", "#58a6ff"),
    "on-heat": ("#ffffff", "#0b1220"),
    "miss": ("#c2410c", "#ff9350"),
    "on-miss": ("#ffffff", "#1d0f05"),
    "series-0": ("#0b62c4", "#58a6ff"),
    "series-1": ("#c2410c", "#ff9350"),
    "series-2": ("#0a7d5a", "#4fd6a5"),
    "series-3": ("#a3287f", "#f58fd0"),
    "series-4": ("#7a5b00", "#e3c04d"),
    "series-5": ("#5b45c9", "#b6a6ff"),
    "series-6": ("#0e7490", "#4dd2ea"),
    "series-7": ("#4b5563", "#b4bcc8"),
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
    return "\n".join(f".series-{number}{{--series:var(--series-{number})}}" for number in range(SERIES))


def series_class(number: int) -> str:
    return f"series-{number % SERIES}"


def dashes(number: int) -> str | None:
    return DASHES[number // SERIES % len(DASHES)] or None
