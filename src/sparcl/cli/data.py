"""sparcl data: see which datasets there are, fetch them, check them."""

import contextlib
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from sparcl.cli.display import print_table, progress_bar
from sparcl.cli.run import PluginOption
from sparcl.data.check import take_inventory
from sparcl.data.domains import DEFAULT_TASKS
from sparcl.data.download import ARCHIVES, fetch_dataset
from sparcl.data.export import export_pictures
from sparcl.data.load import DATASETS, decoding_options, find_source
from sparcl.data.source import Source
from sparcl.data.store import data_directory
from sparcl.errors import SparclError
from sparcl.learning.plugins import import_plugins

app = typer.Typer(help="List, download and check datasets.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The dataset, as `sparcl data list` names it.")]


def _console() -> Console:
    # Names of files and classes are shown as they are: "[red]" is a legal name of a folder.
    return Console(markup=False, highlight=False, emoji=False)


@app.command("list")
def list_datasets() -> None:
    """List the datasets: classes, tasks, image size, and whether the files are here.

    sparcl data list
    """
    table = Table(box=None, pad_edge=False)
    for heading in ("name", "classes", "tasks", "pixels", "files", "what it is"):
        table.add_column(heading)
    places = {}
    for source in DATASETS.values():
        classes = source.classes
        tasks = str(-(-classes // source.classes_per_task)) if classes else "yours"
        if source.domains is not None:
            tasks = str(DEFAULT_TASKS)
        side = f"{source.image_size}x{source.image_size}" if source.image_size else "yours"
        state, place = _files(source)
        if place:
            places[source.name] = place
        table.add_row(source.name, str(classes or "yours"), tasks, side, state, source.description)
    print_table(table)
    console = _console()
    for name, place in places.items():
        console.print(f"{name} is at {place}.", soft_wrap=True)
    console.print(f"Files are looked for under {data_directory()} (set SPARCL_DATA to change that).", soft_wrap=True)


def _files(source: Source) -> tuple[str, Path | None]:
    """Whether the files of a source are here, and where."""
    if source.image_size is None:
        return "yours", None
    try:
        tree = source.files(None)
    except SparclError:
        return "not here", None
    return ("here", tree.location) if tree else ("in the package", None)


@app.command("get")
def get_dataset(
    name: Name,
    root: Annotated[Path | None, typer.Option(help="Where to put it; default: the data directory.")] = None,
) -> None:
    """Download a dataset. An interrupted download continues where it stopped.

    sparcl data get cifar10
    """
    source = find_source(name)
    console = _console()
    if name not in ARCHIVES:
        raise SparclError(f"{name} needs no download: {source.description}.")
    folder = root or data_directory() / name
    with contextlib.suppress(SparclError):
        tree = source.files(folder)
        console.print(f"{source.title} is already at {tree.location if tree else folder}.", soft_wrap=True)
        return
    with progress_bar() as progress:
        path = fetch_dataset(name, folder, progress, say=lambda line: console.print(line, soft_wrap=True))
    console.print(f"{source.title} is at {path}. Check it with `sparcl data check {name}`.", soft_wrap=True)


@app.command("export")
def export_dataset(
    name: Name,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new folder to write to.")],
    root: Annotated[Path | None, typer.Option(help="Where the files are; default: the data directory.")] = None,
) -> None:
    """Write a dataset as PNG files into class folders: FOLDER/train/CLASS/*.png and FOLDER/test/CLASS/*.png.

    sparcl data export digits photos
    """
    source = find_source(name)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SparclError(f"{folder} exists and is not an empty folder. Choose another one.")
    with progress_bar() as progress:
        count = export_pictures(source, root, folder, progress)
    _console().print(f"{count} pictures are in {folder}/train and {folder}/test.", soft_wrap=True)


@app.command("check")
def check_dataset(
    name: Name,
    root: Annotated[Path | None, typer.Option(help="Where the files are; default: the data directory.")] = None,
    image_size: Annotated[int | None, typer.Option(help="For image folders: the side to resize to.")] = None,
    plugin: PluginOption = None,
) -> None:
    """Decode every image of a dataset and count them. The first bad file is named.

    \b
    sparcl data check cifar10
    sparcl data check folder --root ~/photos
    """
    import_plugins(plugin)
    source = find_source(name)
    with progress_bar() as progress:
        found = take_inventory(source, root, decoding_options(source, image_size, test_share=0.2), progress)
    table = Table(box=None, pad_edge=False)
    for heading in ("class", "train", "test"):
        table.add_column(heading)
    for row in zip(found.class_names, found.train, found.test, strict=True):
        table.add_row(*map(str, row))
    table.add_row("all", str(found.train.sum()), str(found.test.sum()))
    console = _console()
    console.print(table)
    channels, height, width = found.image_shape
    place = found.location or "the package"
    console.print(f"{source.title} in {place} is complete: {channels}x{height}x{width} images.", soft_wrap=True)
