"""The options that the benchmarks share, and what is said about wrong ones."""

from pathlib import Path
from typing import Annotated

import typer

from sparcl.errors import SparclError
from sparcl.network.backend import available_cores

SparsityOption = Annotated[
    str, typer.Option(help="Shares of the sparse layers' weights that are not there, separated by commas.")
]
BatchOption = Annotated[str, typer.Option(help="Images in a batch; several numbers are separated by commas.")]
ImageSizeOption = Annotated[str, typer.Option(help="Height and width of the images; several separated by commas.")]
WidthOption = Annotated[int, typer.Option(min=1, help="Channels of the first layer.")]
ModelOption = Annotated[str, typer.Option(help="The network, as `sparcl inspect` names it.")]
ThreadsOption = Annotated[int, typer.Option(min=0, max=512, help="Threads of both sides; 0: all cores.")]
RepeatsOption = Annotated[int, typer.Option(min=1, help="Rounds of measurement; more give steadier medians.")]
CompileOption = Annotated[bool, typer.Option("--compile/--no-compile", help="Whether torch.compile takes part.")]
TuneOption = Annotated[
    float, typer.Option(min=0, help="Seconds to tune our engine for each sparsity, as `sparcl run` does; 0: not.")
]
TimeLimitOption = Annotated[
    float,
    typer.Option(
        min=1,
        help="Seconds in which each side must prepare, and take each of its turns; a rival that does not is left out.",
    ),
]
IntoOption = Annotated[Path | None, typer.Option(help="A Markdown file to write into, at the marks of its section.")]
SectionOption = Annotated[str, typer.Option(help="The section of that file, if not the usual one.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]


def shares(text: str) -> list[float]:
    """Sparsities, each once."""
    values = _each(text, "--sparsity")
    for value in values:
        if not 0 <= value < 1:
            raise SparclError(f"--sparsity {value:g} is not possible; choose from 0 up to but not including 1.")
    return values


def counts(text: str, option: str, most: int = 100_000) -> list[int]:
    """Whole numbers from 1 on, each once."""
    values = _each(text, option)
    for value in values:
        if not 1 <= value <= most or value != int(value):
            raise SparclError(f"{option} {value:g} is not possible; choose whole numbers from 1 to {most}.")
    return [int(value) for value in values]


def _each(text: str, option: str) -> list[float]:
    try:
        return list(dict.fromkeys(float(part) for part in text.split(",")))
    except ValueError:
        raise SparclError(f"{option} {text!r} is not a list of numbers; write for example {option} 8,32.") from None


def threads_or_all(wanted: int) -> int:
    return wanted or available_cores()
