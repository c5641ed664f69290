"""`sparcl run`: learn a stream of tasks."""

import importlib.util
import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from sparcl.cli.compare import print_rows
from sparcl.cli.display import Display, progress_bar
from sparcl.data import Stream, load_stream
from sparcl.errors import SparclError
from sparcl.files import locked
from sparcl.learning import environment, settings
from sparcl.learning.run_directory import RunDirectory
from sparcl.learning.trainer import Stopped, Trainer
from sparcl.report import comparison

HELP = """Learn a stream of tasks, one after another, and report what is remembered.

PRESET is DATASET/METHOD (see `sparcl presets`) or a TOML file with settings.

\b
sparcl run digits/derpp                              # embedded data, some seconds
sparcl run cifar10/er --protocol reduced             # half an hour on two cores
sparcl run digits/derpp --set seed=7 --set method.alpha=0.2
sparcl run --resume runs/digits-derpp                # go on after Ctrl-C or a power cut
"""


def run(
    preset: Annotated[str | None, typer.Argument(help="DATASET/METHOD, or a TOML file.")] = None,
    out: Annotated[Path | None, typer.Option(help="Directory for the run. Default: a new one under runs/.")] = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; may be repeated.")
    ] = None,
    protocol: Annotated[str | None, typer.Option(help="Protocol of the data set: full, reduced, ...")] = None,
    resume: Annotated[Path | None, typer.Option(help="Continue the run in this directory.")] = None,
    plugin: Annotated[
        list[Path] | None, typer.Option("--with", metavar="FILE", help="A Python file that defines your own method.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only the result.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")] = False,
) -> None:
    for path in plugin or []:
        _import_file(path)
    if resume is not None:
        if preset is not None or change or out is not None or protocol is not None:
            raise SparclError("--resume continues a run as it was started: give no preset, --set, --protocol or --out.")
        directory = RunDirectory.open(resume)
        chosen = directory.settings()
    else:
        chosen = _settings(preset, protocol, change or [])
        stream = _load(chosen, quiet or as_json)  # before anything is written: a missing data set leaves no directory
        directory = RunDirectory.create(out or _fresh_directory(chosen), chosen, environment.describe())
    with locked(directory.path):
        result = directory.result()
        if result is None:
            if resume is not None:
                stream = _load(chosen, quiet or as_json)
            result = _learn(chosen, stream, directory, quiet or as_json)
        elif not as_json:
            print(f"{directory.path} is finished already.")
    if as_json:
        print(json.dumps({"directory": str(directory.path), "result": result, "costs": directory.costs()}))
    else:
        print_rows(comparison.compare([directory]))
        print(f"Everything about this run is in {directory.path}")


run.__doc__ = HELP


def _settings(preset: str | None, protocol: str | None, changes: list[str]) -> settings.Settings:
    if preset is None:
        raise SparclError("Say what to run, for example: sparcl run digits/derpp (see `sparcl presets`).")
    values = settings.from_file(Path(preset)) if preset.endswith(".toml") else settings.from_preset(preset)
    if protocol is not None:
        values["protocol"] = protocol
    return settings.resolve(settings.with_changes(values, changes))


def _load(chosen: settings.Settings, quiet: bool) -> Stream:
    options = chosen.data.model_dump()
    with progress_bar(quiet) as progress:
        return load_stream(chosen.dataset, order_seed=chosen.seed, progress=progress, **options)


def _learn(chosen: settings.Settings, stream: Stream, directory: RunDirectory, quiet: bool) -> dict[str, object]:
    with Display(stream, chosen, quiet) as display:
        trainer = Trainer(chosen, stream, directory, display)
        with _stopping_on_signals(trainer):
            try:
                return trainer.run()
            except Stopped:
                display.close()
                print(f"Stopped; nothing is lost. Continue with: sparcl run --resume {directory.path}", file=sys.stderr)
                raise typer.Exit(130) from None


@contextmanager
def _stopping_on_signals(trainer: Trainer) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM saves and stops; a second one ends the program at once."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        trainer.request_stop()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _fresh_directory(chosen: settings.Settings) -> Path:
    name = f"{chosen.dataset}-{chosen.method.name}"
    if chosen.protocol != "full":
        name += f"-{chosen.protocol}"
    name += f"-seed{chosen.seed}"
    candidate, number = Path("runs") / name, 1
    while candidate.exists():
        number += 1
        candidate = Path("runs") / f"{name}-{number}"
    return candidate


def _import_file(path: Path) -> None:
    """Run a Python file the user names, so that the methods it defines are registered."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise SparclError(f"{path} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # so that the annotations in it can be resolved
    spec.loader.exec_module(module)
