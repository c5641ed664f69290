"""`sparcl metrics`: a run's numbers for other programs."""

import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from sparcl.errors import SparclError
from sparcl.files import write_bytes, write_text
from sparcl.learning.run_directory import RunDirectory
from sparcl.report.scalars import as_csv, scalars
from sparcl.report.tensorboard import event_file

HELP = """Export a run's metrics: as CSV, or as a TensorBoard log (TensorBoard need not be installed).

Each line of the CSV is one number: step, task, epoch, metric, value. Without an option the CSV is printed.

\b
sparcl metrics runs/digits-derpp-seed0 --csv metrics.csv
sparcl metrics runs/digits-derpp-seed0 | grep class_il
sparcl metrics runs/digits-derpp-seed0 --tensorboard logs/derpp    # then: tensorboard --logdir logs
"""


def metrics(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory, finished or not.")],
    csv: Annotated[Path | None, typer.Option("--csv", help="Write a CSV file.")] = None,
    tensorboard: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write a TensorBoard log into this directory.")
    ] = None,
) -> None:
    directory = RunDirectory.open(run)
    numbers = scalars(directory)
    if not numbers:
        raise SparclError(f"{run} has no metrics yet: no epoch has ended.")
    if csv is not None:
        write_text(csv, as_csv(numbers))
        print(f"{len(numbers)} numbers are in {csv}")
    if tensorboard is not None:
        # One name, so that writing again replaces what was there instead of showing every point twice.
        path = tensorboard / "events.out.tfevents.sparcl"
        write_bytes(path, event_file(numbers, _started(directory.environment())))
        print(f"{len(numbers)} numbers are in {path}")
    if csv is None and tensorboard is None:
        print(as_csv(numbers), end="")


metrics.__doc__ = HELP


def _started(environment: dict[str, Any]) -> float:
    try:
        return datetime.datetime.fromisoformat(str(environment.get("started"))).timestamp()
    except ValueError:
        return 0.0
