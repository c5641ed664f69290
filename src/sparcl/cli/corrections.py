"""`sparcl correct`, `forget`, `rename`: changing what a learner with a backbone knows, picture by picture."""

from pathlib import Path
from typing import Annotated

import typer

from sparcl.cli.learner import DirectoryArgument
from sparcl.device.learner import Learner
from sparcl.errors import SparclError


def correct(
    directory: DirectoryArgument,
    picture: Annotated[Path, typer.Argument(metavar="PICTURE", help="The picture that was taken for something else.")],
    name: Annotated[str | None, typer.Argument(metavar="[CLASS]", help="What it shows.")] = None,
    denied: Annotated[
        str | None, typer.Option("--not", metavar="CLASS", help="All that is known: it does not show this.")
    ] = None,
) -> None:
    """Say what a picture shows when the learner was wrong; it learns that at once.

    \b
    sparcl correct shop photo.jpg plums              # it shows plums
    sparcl correct shop photo.jpg --not apples       # whatever it shows, it is not apples
    """
    print(Learner.open(directory).correct(picture, name, denied=denied))


def forget(
    directory: DirectoryArgument,
    name: Annotated[str | None, typer.Option("--class", metavar="CLASS", help="A class with all its pictures.")] = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="PICTURE", help="One picture: the file that was learned.")
    ] = None,
) -> None:
    """Forget a class or a picture exactly, as if it had never been seen. This cannot be undone.

    \b
    sparcl forget shop --class plums
    sparcl forget shop --picture photo.jpg
    """
    if (name is None) == (picture is None):
        raise SparclError("Say what to forget: --class CLASS or --picture PICTURE.")
    print(Learner.open(directory).forget(name=name, picture=picture))


def rename(
    directory: DirectoryArgument,
    old: Annotated[str, typer.Argument(metavar="CLASS", help="The name it has.")],
    new: Annotated[str, typer.Argument(metavar="NAME", help="The name it gets; if another class has it, they merge.")],
) -> None:
    """Give a class another name.

    Example: sparcl rename shop plums damsons
    """
    print(Learner.open(directory).rename(old, new))
