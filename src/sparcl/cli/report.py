"""`sparcl report`: a page about runs."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from sparcl.cli.compare import RunsArgument
from sparcl.cli.display import progress_bar
from sparcl.errors import SparclError
from sparcl.files import write_bytes
from sparcl.report.named_runs import named_runs
from sparcl.report.page.assemble import page, sections
from sparcl.report.run_record import RunRecord

HELP = """Write a report on one or more runs: a single HTML file that works offline.

It shows settings, accuracy and forgetting after each task, how the weights and samples changed, FLOPs, time and memory
compared with the dense run, the confusion matrix, and the images kept for rehearsal. An unfinished run is shown up to
where it is; `sparcl watch` follows it live.

\b
sparcl report runs/digits-derpp-seed0                # writes report.html
sparcl report runs -o comparison.html                # all runs in a directory
"""


def report(
    runs: RunsArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write.")] = Path("report.html"),
) -> None:
    found: list[RunRecord] = []
    paths = named_runs(runs)
    with progress_bar() as progress:
        for place, path in enumerate(paths):
            progress("reading runs", place, len(paths))
            try:
                found.append(RunRecord.read(path))
            except SparclError as error:
                if len(paths) == 1:
                    raise
                print(f"sparcl: Left out: {error}", file=sys.stderr)
    if not found:
        raise SparclError("There is no run to report on.")
    names = ", ".join(dict.fromkeys(run.settings.dataset for run in found))
    title = f"{len(found)} runs on {names}" if len(found) > 1 else f"{found[0].path.resolve().name} on {names}"
    write_bytes(out, page(title, sections(found)).encode(errors="replace"))
    print(f"The report is in {out}")


report.__doc__ = HELP
