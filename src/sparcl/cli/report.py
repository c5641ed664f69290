"""`sparcl report`: a page about runs, or about a learner."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from sparcl.cli.display import progress_bar
from sparcl.device.learner import Learner
from sparcl.errors import SparclError
from sparcl.files import write_bytes
from sparcl.instant.learner import InstantLearner
from sparcl.instant.page.assemble import learner_page
from sparcl.report.named_runs import named_runs
from sparcl.report.page.assemble import page, sections
from sparcl.report.run_record import RunRecord
from sparcl.wording import quoted

HELP = """Write a report on a learner or on runs: a single HTML file that works offline.

Of a learner with a backbone it shows the classes with some of their pictures, which class is confused with which, how
learning went, whether more pictures would help, and pictures that are odd: near duplicates, blurred ones, and those
that look like another class. The pictures are part of the file: think of that before you pass it on.

Of runs it shows settings, accuracy and forgetting after each task, how the weights and samples changed, FLOPs, time and
memory compared with the dense run, the confusion matrix, and the images kept for rehearsal. An unfinished run is shown
up to where it is; `sparcl watch` follows it live.

\b
sparcl report shop -o shop.html                      # a learner
sparcl report runs/digits-derpp-seed0                # writes report.html
sparcl report runs -o comparison.html                # all runs in a directory
"""


def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="DIR", help="A learner; or run directories, or directories of runs.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write.")] = Path("report.html"),
) -> None:
    learner = _learner(runs[0]) if len(runs) == 1 else None
    made = _page_of_runs(runs) if learner is None else learner_page(runs[0], learner.state())
    write_bytes(out, made.encode(errors="replace"))
    print(f"The report is in {out}")


def _learner(directory: Path) -> InstantLearner | None:
    """The learner with a backbone that lives there, if one does."""
    if not (directory / "states").is_dir():
        return None
    learner = Learner.open(directory)
    if not isinstance(learner, InstantLearner):
        raise SparclError(
            f"{directory} is a learner, not a run, and learns from scratch: it keeps too few pictures for a report. "
            f"Look at it with: sparcl status {quoted(directory)}; or sparcl evaluate {quoted(directory)} FOLDER"
        )
    return learner


def _page_of_runs(runs: list[Path]) -> str:
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
    return page(title, sections(found))


report.__doc__ = HELP
