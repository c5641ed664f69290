"""sparcl backbone: the networks that learners see with."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from sparcl.backbone import (
    DEFAULT_BACKBONE,
    Backbone,
    DamagedBackbone,
    backbone_directory,
    find_backbone,
    list_backbones,
    remove_backbone,
)
from sparcl.backbone.importing import import_backbone
from sparcl.cli.display import print_table
from sparcl.errors import SparclError
from sparcl.wording import quoted

app = typer.Typer(
    help="List, check and import backbones: trained networks that a learner sees with.", no_args_is_help=True
)

SHOWN_DIGITS = 12  # of a digest


def _console() -> Console:
    return Console(markup=False, highlight=False, emoji=False, soft_wrap=True)


@app.command("list")
def list_all() -> None:
    """List the backbones: that of the package, and those you have imported.

    sparcl backbone list
    """
    table = Table(box=None, pad_edge=False)
    for heading in ("name", "pixels", "features", "MB", "SHA-256", "where"):
        table.add_column(heading)
    damaged = []
    for found in list_backbones():
        if isinstance(found, DamagedBackbone):
            damaged.append(found)
            continue
        place = "in the package" if found.name == DEFAULT_BACKBONE else str(found.path.parent)
        size = f"{found.path.stat().st_size / 1e6:.1f}"
        side = f"{found.size}x{found.size}"
        table.add_row(found.name, side, str(found.features), size, found.digest[:SHOWN_DIGITS], place)
    print_table(table)
    console = _console()
    for one in damaged:
        console.print(f"{one.name} cannot be used: {one.problem}")
    console.print(f"Imported ones are kept in {backbone_directory()} (set SPARCL_HOME to change that).")


@app.command("check")
def check(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Only this one; default: all.")] = None,
) -> None:
    """Read every number of a backbone, or of all: whatever is damaged is named.

    \b
    sparcl backbone check
    sparcl backbone check mobilenet_v2
    """
    found = list_backbones() if name is None else [find_backbone(name)]
    problems = []
    for one in found:
        try:
            if isinstance(one, DamagedBackbone):
                raise SparclError(one.problem)
            one.parameters()
        except SparclError as error:
            problems.append(str(error))
            continue
        _console().print(f"{one.name} is whole: SHA-256 {one.digest}")
    if problems:
        raise SparclError(" ".join(problems))


@app.command("import")
def import_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Weights (.pt, .safetensors), or a backbone file.")],
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="What to call it; default: as the file.")] = None,
    model: Annotated[
        str | None, typer.Option(help="The network, if it is not recognised: mobilenet_v2, imagenet_resnet18, ...")
    ] = None,
    width: Annotated[
        int | None, typer.Option(help="Channels of its first layer; default: as many as in the file.")
    ] = None,
    size: Annotated[
        int | None, typer.Option(help="Pictures become squares with sides of this many pixels; default: 128.")
    ] = None,
    mean: Annotated[
        str | None, typer.Option(metavar="R,G,B", help="Of pixels from 0 to 1; default: 0.485,0.456,0.406 (ImageNet).")
    ] = None,
    std: Annotated[
        str | None, typer.Option(metavar="R,G,B", help="Of pixels from 0 to 1; default: 0.229,0.224,0.225 (ImageNet).")
    ] = None,
) -> None:
    """Import a backbone of your own: weights of torchvision or timm, or any network, written by sparcl.save_backbone.

    The file is read without unpickling it and copied; it is not needed afterwards. Whether you may use it, and pass on
    what learns with it, its licence says.

    \b
    sparcl backbone import resnet18-f37072fd.pth resnet18             # torchvision's ResNet-18
    sparcl backbone import mobilenetv2_100.safetensors timm --size 160
    sparcl backbone import half.pt --model mobilenet_v2 --width 16 --mean 0.5,0.5,0.5 --std 0.5,0.5,0.5
    sparcl backbone import lite0.safetensors                          # written by sparcl.save_backbone
    """
    backbone, notes = import_backbone(
        file, name, model=model, width=width, size=size, mean=_numbers("mean", mean), std=_numbers("std", std)
    )
    console = _console()
    for note in notes:
        console.print(note)
    console.print(_described(backbone))
    console.print(f"Use it: sparcl new LEARNER --backbone {quoted(backbone.name)}")


@app.command("remove")
def remove(name: Annotated[str, typer.Argument(metavar="NAME", help="As `sparcl backbone list` names it.")]) -> None:
    """Remove a backbone that you have imported. Learners that see with it cannot be used without it.

    sparcl backbone remove resnet18
    """
    _console().print(f"{remove_backbone(name)} is removed.")


def _described(backbone: Backbone) -> str:
    side = f"{backbone.size}x{backbone.size}"
    return f"{backbone.name} is ready: {backbone.features} features of pictures of {side}, SHA-256 {backbone.digest}"


def _numbers(option: str, text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise SparclError(f"--{option} takes three numbers, one for each colour: --{option} 0.5,0.5,0.5") from None
