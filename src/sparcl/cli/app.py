"""The sub-commands, put together."""

import typer

from sparcl.cli import bench, compare, cost, data, doctor, export, inspect, methods, presets, run, settings, tune

app = typer.Typer(
    help="Continual learning on small devices: learn new classes, keep the old ones.",
    epilog="Start with: sparcl run digits/derpp",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(name="run")(run.run)
app.command(name="compare")(compare.compare)
app.command(name="methods")(methods.methods)
app.command(name="presets")(presets.presets)
app.command(name="settings")(settings.settings)
app.command(name="cost")(cost.cost)
app.command(name="export")(export.export)
app.command(name="inspect")(inspect.inspect)
app.command(name="tune")(tune.tune)
app.command(name="doctor")(doctor.doctor)
app.add_typer(bench.app, name="bench")
app.add_typer(data.app, name="data")
