"""`sparcl evaluate`: how well a learner or a model file does on pictures whose classes are known."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from sparcl.cli.display import print_table, progress_bar
from sparcl.cli.learner import MAX_SKIPPED, JsonOption, named_folders
from sparcl.cli.predict import open_model
from sparcl.data.source import Progress
from sparcl.device.evaluation import Evaluation
from sparcl.device.evaluation import evaluate as evaluate_predictor
from sparcl.device.gather import named_as_picture
from sparcl.device.learner import Learner
from sparcl.device.prediction import UNKNOWN
from sparcl.wording import counted

MAX_MISTAKES = 5
MAX_COLUMNS = 12  # of the confusion matrix; with more classes, only the most frequent mistakes are listed
MAX_PAIRS = 10

HELP = """Evaluate a learner or a model file on pictures whose classes are known.

It shows the accuracy of each class, which class is taken for which, the most confident mistakes, and whether confidence
comes true. Folders of classes that were never learned are welcome: their right answer is `unknown`. Give pictures that
it has not learned from.

\b
sparcl evaluate shop photos/test                 # a folder with one folder for each class
sparcl evaluate shop test/apples plums=test/IMG  # folders of single classes, as for learn
sparcl evaluate fruit.sparcl photos/test         # a model file
sparcl evaluate shop photos/test --json          # all of it, with every mistake
"""


def evaluate(
    model: Annotated[Path, typer.Argument(metavar="LEARNER", help="The learner's directory, or a model file.")],
    folders: Annotated[
        list[str], typer.Argument(metavar="[NAME=]FOLDER...", help="A folder of class folders, or a folder for each.")
    ],
    as_json: JsonOption = False,
) -> None:
    classes = named_folders([folder for given in folders for folder in _class_folders(given)])
    with progress_bar(as_json) as progress:
        found = _evaluated(model, classes, progress)
    if as_json:
        print(json.dumps(found.to_json()))
    else:
        _show(found)


evaluate.__doc__ = HELP


def _evaluated(model: Path, classes: dict[str, str | Path | list[str]], progress: Progress) -> Evaluation:
    if model.is_dir():
        return Learner.open(model).evaluate(classes, progress)
    predictor = open_model(model)
    return evaluate_predictor(predictor, predictor.model.classes, classes, progress)


def _class_folders(given: str) -> list[str]:
    """The folders of classes in a folder that holds nothing else; or the folder itself, if it is one of a class."""
    if not Path(given).is_dir():
        return [given]
    with os.scandir(given) as entries:
        there = sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda entry: entry.name)
    inside = [entry.path for entry in there if entry.is_dir()]
    if not inside or any(entry.is_file() and named_as_picture(entry.name) for entry in there):
        return [given]
    return inside


def _show(found: Evaluation) -> None:
    console = Console(highlight=False, markup=False, soft_wrap=True)
    for line in found.skipped[:MAX_SKIPPED]:
        console.print(f"skipped: {line}")
    if len(found.skipped) > MAX_SKIPPED:
        console.print(f"skipped: {len(found.skipped) - MAX_SKIPPED:,} more (--json lists all)")
    if found.accuracy is not None:
        console.print(f"accuracy   {found.accuracy:.1f}% on {counted(len(found.known), 'picture')}")
        called = (
            f"{found.called_unknown} of them called {UNKNOWN}"
            if found.called_unknown
            else "none of them called unknown"
        )
        console.print(f"           {called}; confidence off by {found.calibration_error:.1f} points on average")
    if found.never_learned:
        console.print(
            f"unknown    {found.never_learned_called_unknown} of {counted(len(found.never_learned), 'picture')} of "
            "classes never learned were called unknown"
            + (f"; AUROC of known against unknown {found.auroc:.3f}" if found.auroc is not None else "")
        )
    console.print(f"time       {found.milliseconds:.1f} ms for a picture")
    console.print()
    _show_classes(found)
    _show_mistakes(found, console)
    if found.learned:
        console.print(
            f"WARNING: It has learned from {counted(found.learned, 'picture')} of these, and does better on them than "
            "on new ones. Evaluate with others."
        )


def _show_classes(found: Evaluation) -> None:
    answers = [name for name in found.classes if any(name in row for row in found.confusion.values())]
    answers += [UNKNOWN] if any(UNKNOWN in row for row in found.confusion.values()) else []
    wide = len(answers) > MAX_COLUMNS
    headings = [] if wide else [f"as {name}" for name in answers]
    table = Table("class", "pictures", "accuracy", *headings, box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for name, row in found.confusion.items():
        share = found.accuracy_by_class.get(name)
        cells = [] if wide else [str(row[answer]) if answer in row else "." for answer in answers]
        shown = "never learned" if share is None else f"{share:.1f}%"
        table.add_row(name, f"{sum(row.values()):,}", shown, *cells)
    print_table(table)


def _show_mistakes(found: Evaluation, console: Console) -> None:
    pairs = [(count, truth, name) for truth, row in found.confusion.items() for name, count in row.items()]
    wrong = sorted((pair for pair in pairs if pair[2] not in (pair[1], UNKNOWN)), key=lambda pair: -pair[0])
    if not wrong:
        return
    if len(found.names) > MAX_COLUMNS:
        console.print()
        table = Table("class", "taken for", "pictures", box=None, pad_edge=False)
        for count, truth, name in wrong[:MAX_PAIRS]:
            table.add_row(truth, name, f"{count:,}")
        print_table(table)
    console.print()
    console.print("most confident mistakes")
    for answer in found.mistakes[:MAX_MISTAKES]:
        sure = f"{100 * answer.confidence:.0f}%"
        console.print(f"  {answer.picture}: {answer.name} {sure}, but it is {answer.truth}")
