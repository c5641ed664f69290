"""All commands, in groups."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

import sparcl
from sparcl.cli import (
    backbone,
    bench,
    compare,
    corrections,
    cost,
    data,
    doctor,
    evaluate,
    export,
    inspect,
    learner,
    methods,
    metrics,
    paper,
    predict,
    presets,
    report,
    run,
    settings,
    sweep,
    tune,
    watch,
)
from sparcl.cli.commands import Command, Commands

LEARNER = "A learner in a directory"
EXPERIMENTS = "Experiments"
RESULTS = "Results"
MACHINE = "Networks, the engine and this machine"

app = typer.Typer(
    help="Continual learning on small devices: learn new classes, keep the old ones.",
    epilog="Start with: sparcl run digits/derpp, or read docs/tutorial.md",
    no_args_is_help=True,
    cls=Commands,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"sparcl {sparcl.__version__}")
        raise typer.Exit


@app.callback()
def _of_all_commands(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None: ...


def _add(group: str, *commands: Callable[..., None], **options: Any) -> None:
    for command in commands:
        app.command(name=command.__name__, cls=Command, rich_help_panel=group, **options)(command)


def _add_group(group: str, name: str, commands: typer.Typer) -> None:
    for command in commands.registered_commands:
        command.cls = Command
    app.add_typer(commands, name=name, cls=Commands, rich_help_panel=group)


_add(LEARNER, learner.new, learner.learn, learner.deepen)
_add(LEARNER, predict.predict, **predict.OWN_OPTIONS)
_add(LEARNER, corrections.correct, corrections.forget, corrections.rename)
_add(LEARNER, learner.status, evaluate.evaluate, learner.undo)
_add_group(LEARNER, "backbone", backbone.app)
_add(EXPERIMENTS, run.run, sweep.sweep, paper.paper)
_add(EXPERIMENTS, presets.presets, methods.methods, settings.settings)
_add_group(EXPERIMENTS, "data", data.app)
_add(RESULTS, compare.compare, report.report, watch.watch, metrics.metrics, export.export)
_add(MACHINE, cost.cost, inspect.inspect, tune.tune, doctor.doctor)
_add_group(MACHINE, "bench", bench.app)
