"""The `sparcl` command: puts the sub-commands together and turns every expected error into one line."""

import sys

import typer

from sparcl.cli import compare, data, doctor, inspect, presets, run
from sparcl.errors import SparclError

app = typer.Typer(
    help="Continual learning on small devices: learn new classes, keep the old ones.",
    epilog="Start with: sparcl run digits/derpp",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(name="run")(run.run)
app.command(name="compare")(compare.compare)
app.command(name="inspect")(inspect.inspect)
app.command(name="presets")(presets.presets)
app.command(name="doctor")(doctor.doctor)
app.add_typer(data.app, name="data")


def main() -> None:
    try:
        app()
    except SparclError as error:
        print(f"sparcl: {error}", file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:
        # The reader of our output (head, less) has gone; that is not our error.
        sys.stderr.close()
        sys.exit(0)


if __name__ == "__main__":
    main()
