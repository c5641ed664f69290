"""`sparcl settings`: every setting of a preset, with its value and what it means."""

import json
from typing import Annotated

import typer
from pydantic import BaseModel
from rich.table import Table

from sparcl.cli.display import print_table
from sparcl.cli.run import ChangeOption, PluginOption, PresetArgument, ProtocolOption, chosen_settings

HELP = """Show every setting that `sparcl run PRESET` would use, with its value and meaning. Change one with --set.

\b
sparcl settings cifar10/derpp
sparcl settings cifar10/derpp --protocol reduced --set buffer_size=200
"""


def settings(
    preset: PresetArgument = None,
    change: ChangeOption = None,
    protocol: ProtocolOption = None,
    plugin: PluginOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the same as JSON.")] = False,
) -> None:
    chosen = chosen_settings(preset, protocol, change, plugin)
    if as_json:
        print(json.dumps(chosen.model_dump(mode="json")))
        return
    table = Table("setting", "value", "meaning", box=None, pad_edge=False)
    _add_rows(table, chosen, "")
    print_table(table)


settings.__doc__ = HELP


def _add_rows(table: Table, section: BaseModel, prefix: str) -> None:
    for name, value in section:
        if isinstance(value, BaseModel):
            _add_rows(table, value, f"{prefix}{name}.")
            continue
        field = type(section).model_fields.get(name)
        table.add_row(f"{prefix}{name}", str(value), (field.description or "") if field else "")
