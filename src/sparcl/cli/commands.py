"""How the commands are parsed and explained: help as plain text, and a hint for a name that does not exist.

Help is not rich markup: that would swallow [grid] and break the examples' lines.
"""

import re
from typing import Any

from typer.core import TyperCommand, TyperGroup

from sparcl.hints import meant
from sparcl.learning.settings import setting_names
from sparcl.methods import METHODS
from sparcl.sparsity import SPARSIFIERS
from sparcl.wording import quoted


class Command(TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = list(args)  # parsing takes them away
        try:
            return super().parse_args(ctx, args)
        except Exception as error:  # of click, which is a package of its own or a part of typer
            unknown = getattr(error, "option_name", None)
            if not isinstance(unknown, str) or not hasattr(error, "possibilities"):
                raise
            error.possibilities = None
            error.message = f"There is no option {unknown}{self._hint(unknown, given)}"  # type: ignore[attr-defined]
            raise

    def _hint(self, unknown: str, given: list[str]) -> str:
        own = [name for parameter in self.params for name in parameter.opts if name.startswith("--")]
        option = meant(unknown, [*own, "--help"])
        if option is None and "--set" in own:
            option = _as_setting(unknown, given)
        return f"; did you mean {option}?" if option else "."


def _as_setting(unknown: str, given: list[str]) -> str | None:
    """`--set seed=1` for `--seed 1`."""
    methods = (name for method in METHODS.values() for name in method.hyperparameters())
    sparsifiers = (name for sparsifier in SPARSIFIERS.values() for name in sparsifier.options())
    setting = meant(unknown.lstrip("-"), setting_names(methods, sparsifiers))
    if setting is None:
        return None
    words = iter(given)
    written = next((word for word in words if word.partition("=")[0] == unknown), unknown)
    _, equals, value = written.partition("=")
    if not equals:
        value = next(words, "-")
    return f"--set {setting}={quoted(value) if not value.startswith('-') else 'VALUE'}"


class Commands(TyperGroup):
    """The table of commands: in groups, none of their lines cut."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if name not in self.commands and not name.startswith("-"):
            known = meant(name, self.commands)
            ctx.fail(f"There is no command {name!r}{f'; did you mean {known!r}?' if known else '.'}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            heading = getattr(command, "rich_help_panel", None)
            rows = groups.setdefault(heading if isinstance(heading, str) else "Commands", [])
            rows.append((name, _in_short(command.help or "")))
        for heading, rows in groups.items():
            with formatter.section(heading):
                formatter.write_dl(rows)


def _in_short(text: str) -> str:
    """The first sentence, up to where it goes into details."""
    return re.split(r"[.:](?:\s|$)", text.strip(), maxsplit=1)[0]
