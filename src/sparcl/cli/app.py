"""The sub-commands, put together."""

from typing import Annotated

import typer

import sparcl
from sparcl.cli import (
    bench,
    compare,
    cost,
    data,
    doctor,
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

LEARNER = "A learner in a directory"

app = typer.Typer(
    help="Continual learning on small devices: learn new classes, keep the old ones.",
    epilog="Start with: sparcl run digits/derpp, or docs/tutorial.md",
    no_args_is_help=True,
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
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None: ...


app.command(name="new", rich_help_panel=LEARNER)(learner.new)
app.command(name="learn", rich_help_panel=LEARNER)(learner.learn)
app.command(name="predict", rich_help_panel=LEARNER, **predict.OWN_OPTIONS)(predict.predict)
app.command(name="status", rich_help_panel=LEARNER)(learner.status)
app.command(name="undo", rich_help_panel=LEARNER)(learner.undo)
app.command(name="run")(run.run)
app.command(name="compare")(compare.compare)
app.command(name="report")(report.report)
app.command(name="watch")(watch.watch)
app.command(name="metrics")(metrics.metrics)
app.command(name="methods")(methods.methods)
app.command(name="presets")(presets.presets)
app.command(name="settings")(settings.settings)
app.command(name="cost")(cost.cost)
app.command(name="export")(export.export)
app.command(name="inspect")(inspect.inspect)
app.command(name="paper")(paper.paper)
app.command(name="sweep")(sweep.sweep)
app.command(name="tune")(tune.tune)
app.command(name="doctor")(doctor.doctor)
app.add_typer(bench.app, name="bench")
app.add_typer(data.app, name="data")
