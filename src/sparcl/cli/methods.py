"""`sparcl methods`: the methods there are, and what each can do."""

import json
from typing import Annotated

import typer
from rich.table import Table

from sparcl.cli.display import print_table
from sparcl.cli.run import PluginOption
from sparcl.learning.plugins import import_plugins
from sparcl.methods import METHODS, Method, WithBuffer
from sparcl.sparsity import SPARSIFIERS

HELP = """List the methods: the family of each, whether it keeps samples, its scenarios, and its reference.

Class-IL: the task is not known at test time. Task-IL: it is known. Domain-IL: all tasks have the same classes.
docs/methods.md has the details, and where a method deviates from its paper.

\b
sparcl methods
sparcl settings cifar10/ewc          # one method's hyper-parameters, as tuned for a data set
"""

FAMILIES = ("bound", "regularisation", "architecture", "rehearsal", "")


def methods(
    plugin: PluginOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the same as JSON.")] = False,
) -> None:
    import_plugins(plugin)
    by_family = sorted(METHODS.values(), key=lambda method: FAMILIES.index(method.family))
    entries = [describe(method) for method in by_family]
    if as_json:
        print(json.dumps(entries))
        return
    table = Table("method", "family", "buffer", "Class-IL", "Task-IL", "Domain-IL", "sparse", "reference")
    table.box, table.pad_edge = None, False
    for entry in entries:
        table.add_row(*(_cell(value) for value in entry.values()))
    print_table(table)
    sparsifiers = ", ".join(sorted(name for name in SPARSIFIERS if name != "none"))
    print(f"\nsparse: a sparsifier ({sparsifiers}) can be put around it, for example cifar10/sparcl-derpp-90.")


methods.__doc__ = HELP


def describe(method: type[Method]) -> dict[str, str | bool]:
    return {
        "method": method.name,
        "family": method.family,
        "buffer": issubclass(method, WithBuffer),
        "class_il": "class-il" in method.scenarios,
        "task_il": "task-il" in method.scenarios,
        "domain_il": "domain-il" in method.scenarios,
        "sparse": not method.sparsifier_conflict,
        "reference": method.reference,
    }


def _cell(value: str | bool) -> str:
    if isinstance(value, bool):
        return "yes" if value else "-"
    return value
