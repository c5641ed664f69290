"""Everything that was set, and on what machine it ran."""

from collections.abc import Sequence
from typing import Any

from sparcl.checked import plain
from sparcl.figures.markup import Markup, element, join
from sparcl.report.measures import RunView
from sparcl.report.page.parts import UNKNOWN, Section, hidden, run_tag, table


def section(views: Sequence[RunView]) -> Section:
    settings = [_flat(plain(view.run.settings)) for view in views]
    machines = [_flat(view.run.environment) for view in views]
    content = join(
        hidden("Settings", _side_by_side(views, settings), "settings"),
        hidden("Machine and versions", _side_by_side(views, machines), "machine"),
    )
    return Section("details", "Details", "Where runs differ, the line is marked.", content)


def _side_by_side(views: Sequence[RunView], columns: Sequence[dict[str, str]]) -> Markup:
    keys = list(dict.fromkeys(key for column in columns for key in column))
    rows = []
    for key in keys:
        values = [column.get(key, UNKNOWN) for column in columns]
        differs = len(set(values)) > 1
        rows.append([element("b", key) if differs else key, *(element("b", v) if differs else v for v in values)])
    return table(["setting", *map(run_tag, views)], rows)


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": _text(value)}
    return flat


def _text(value: object) -> str:
    return UNKNOWN if value is None else str(value)
