"""`sparcl settings`: every setting of a preset, with its value and what it means."""

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated

import typer
from rich.table import Table

from sparcl.checked import Checked, plain
from sparcl.cli.display import print_table
from sparcl.cli.run import ChangeOption, PluginOption, PresetArgument, ProtocolOption, chosen_settings
from sparcl.learning.settings import MethodSettings, SparsifierSettings
from sparcl.methods import METHODS
from sparcl.options import option_meanings
from sparcl.sparsity import SPARSIFIERS

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
        print(json.dumps(plain(chosen)))
        return
    table = Table("setting", "value", "meaning", box=None, pad_edge=False)
    _add_rows(table, chosen, "")
    print_table(table)


settings.__doc__ = HELP


def _add_rows(table: Table, section: Checked, prefix: str) -> None:
    for field in fields(section):  # type: ignore[arg-type]
        value = getattr(section, field.name)
        if isinstance(value, Checked):
            _add_rows(table, value, f"{prefix}{field.name}.")
        elif isinstance(value, MethodSettings):
            owners: Mapping[str, type] = SPARSIFIERS if isinstance(value, SparsifierSettings) else METHODS
            meanings = {"name": f"which {field.name}"} | option_meanings(owners[value.name])
            for name, option in value.to_plain().items():
                table.add_row(f"{prefix}{field.name}.{name}", str(option), meanings.get(name, ""))
        else:
            table.add_row(f"{prefix}{field.name}", str(value), field.metadata.get("meaning", ""))
