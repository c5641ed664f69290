"""Small line plots as SVG, readable on light and on dark pages: no background, and colours of middle brightness."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

COLOURS = ("#2f81f7", "#d9822b", "#3fa45b")
GREY = "#808890"
WIDTH, HEIGHT = 360, 240  # of a panel
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 34, 44  # around its axes
PANELS_IN_A_ROW = 2


@dataclass(frozen=True)
class Panel:
    """Lines over the same values of x, which stand at equal distances. A number that is missing leaves a gap."""

    title: str
    x: Sequence[str]
    lines: dict[str, Sequence[float | None]]
    unit: str


def svg(panels: Sequence[Panel]) -> str:
    rows = -(-len(panels) // PANELS_IN_A_ROW)
    width, height = WIDTH * min(len(panels), PANELS_IN_A_ROW), HEIGHT * rows + 24
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    colours = {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(names)}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="12">'
    ]
    for place, panel in enumerate(panels):
        row, column = divmod(place, PANELS_IN_A_ROW)
        parts.append(f'<g transform="translate({column * WIDTH} {row * HEIGHT})">')
        parts += [*_axes(panel), *_lines(panel, colours), "</g>"]
    for place, name in enumerate(names):
        x = LEFT + 150 * place
        parts.append(f'<line x1="{x}" y1="{height - 12}" x2="{x + 24}" y2="{height - 12}" {_stroke(colours[name])}/>')
        parts.append(_text(x + 30, height - 8, name, "start"))
    return "\n".join([*parts, "</svg>", ""])


def _axes(panel: Panel) -> list[str]:
    parts = [_text(LEFT, TOP - 14, f"{panel.title} ({panel.unit})", "start")]
    top, ticks = _scale(panel)
    for tick in ticks:
        y = _y(tick, top)
        parts.append(
            f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="{GREY}" stroke-opacity="0.3"/>'
        )
        parts.append(_text(LEFT - 6, y + 4, f"{tick:g}", "end"))
    parts += [_text(_x(place, panel), HEIGHT - BOTTOM + 18, label) for place, label in enumerate(panel.x)]
    return parts


def _lines(panel: Panel, colours: dict[str, str]) -> list[str]:
    parts, (top, _) = [], _scale(panel)
    for name, values in panel.lines.items():
        points = [(_x(place, panel), _y(value, top)) for place, value in enumerate(values) if value is not None]
        joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{joined}" fill="none" {_stroke(colours[name])}/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colours[name]}"/>' for x, y in points]
    return parts


def _scale(panel: Panel) -> tuple[float, list[float]]:
    """The upper end of the axis, and round numbers on it."""
    highest = max((value for values in panel.lines.values() for value in values if value is not None), default=1.0)
    step = 1e-9
    while 5 * step < highest:  # 1, 2, 5, 10, 20, 50, ...
        step *= 2.5 if f"{step:e}".startswith("2") else 2
    ticks = [number * step for number in range(6) if (number - 1) * step < highest]
    return ticks[-1] or 1.0, ticks


def _x(place: int, panel: Panel) -> float:
    gaps = max(1, len(panel.x) - 1)
    return LEFT + 12 + place * (WIDTH - LEFT - RIGHT - 24) / gaps


def _y(value: float, top: float) -> float:
    return HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM)


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{GREY}">{escape(text)}</text>'


def _stroke(colour: str) -> str:
    return f'stroke="{colour}" stroke-width="2"'
