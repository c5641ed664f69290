"""`sparcl run`: learn a stream of tasks."""

import contextlib
import itertools
import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from sparcl.cli.compare import print_rows
from sparcl.cli.display import Display, progress_bar
from sparcl.errors import SparclError
from sparcl.files import BusyError, Directory, locked, make_directory, write_error
from sparcl.learning import settings
from sparcl.learning.plugins import import_plugins
from sparcl.learning.run_directory import RunDirectory
from sparcl.learning.runner import Run
from sparcl.learning.trainer import Stopped
from sparcl.report import comparison

HELP = """Learn a stream of tasks, one after another, and report how much is remembered.

PRESET is DATASET/METHOD (see `sparcl presets`) or a TOML file with settings. Change any setting with --set; `sparcl
settings PRESET` lists them all.

\b
sparcl run digits/derpp                     # bundled data, a few seconds
sparcl run digits/sparcl-derpp-90           # sparse: 90% of weights pruned
sparcl run cifar10/er --protocol reduced    # half an hour on two cores
sparcl run digits/derpp --set seed=7 --set method.alpha=0.2
sparcl run cifar10/derpp --from weights.pt  # start from weights: .pt, safetensors, a run or a learner
sparcl run --resume runs/digits-derpp-seed0 # after Ctrl-C or a power cut
"""


PresetArgument = Annotated[str | None, typer.Argument(metavar="PRESET", help="DATASET/METHOD, or a TOML file.")]
ChangeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a setting, for example seed=7 or method.learning_rate=0.1. Repeatable.",
    ),
]
ProtocolOption = Annotated[
    str | None, typer.Option(help="The data set's protocol: full (the default), reduced, ... See `sparcl presets`.")
]
PluginOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--with", metavar="FILE", help="Load a Python file with your own method, data set, network or sparsifier."
    ),
]


def run(
    preset: PresetArgument = None,
    out: Annotated[Path | None, typer.Option(help="Directory of the run. Default: a new one in runs/.")] = None,
    change: ChangeOption = None,
    protocol: ProtocolOption = None,
    weights: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="Start from weights: .pt, safetensors, or a run or learner."),
    ] = None,
    resume: Annotated[Path | None, typer.Option(help="Continue the run in this directory.")] = None,
    plugin: PluginOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show only the result, no progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")] = False,
) -> None:
    silent = quiet or as_json
    if resume is None:
        chosen = chosen_settings(preset, protocol, change, plugin, weights)
        with _new_directory(chosen, out) as directory:
            _show(directory, _learn(directory, chosen, plugin, silent), as_json)
    else:
        if any(given not in (None, []) for given in (preset, change, out, protocol, weights)):
            raise SparclError(
                "--resume continues a run as it was started: give no preset, --set, --protocol, --from or --out."
            )
        import_plugins(plugin)
        RunDirectory.open(resume)
        with locked(resume) as held:
            directory = RunDirectory(resume, held)
            directory.remove_leftovers()
            finished = directory.result()
            if finished is None:
                finished = _learn(directory, None, plugin, silent)
            elif not as_json:
                print(f"{resume} is already finished.")
            _show(directory, finished, as_json)


run.__doc__ = HELP


def _show(directory: RunDirectory, result: dict[str, object], as_json: bool) -> None:
    path = directory.current_path()
    if as_json:
        print(json.dumps({"directory": str(path), "result": result, "costs": directory.costs()}))
    else:
        print_rows(comparison.compare([path]))
        print(f"Everything about this run is in {path}")


def _learn(
    directory: RunDirectory, chosen: settings.Settings | None, plugin: list[Path] | None, silent: bool
) -> dict[str, object]:
    """With a display of the progress, until the end or Ctrl-C."""
    with progress_bar(silent) as progress:
        learning = Run(directory, chosen, progress)
    display = Display(learning.stream, learning.settings, silent)
    learning.prepare(display)
    try:
        with display:
            return learning.learn()
    except Stopped as stopped:
        plugins = "".join(f" --with {shlex.quote(str(file))}" for file in plugin or [])
        remedy = f"sparcl run --resume {shlex.quote(str(directory.current_path()))}{plugins}"
        print(f"Stopped; nothing is lost. Continue with: {remedy}", file=sys.stderr)
        raise typer.Exit(128 + (stopped.signal or 0)) from None


def chosen_settings(
    preset: str | None,
    protocol: str | None,
    change: list[str] | None,
    plugin: list[Path] | None,
    weights: Path | None = None,
) -> settings.Settings:
    """What the options of a command ask for, completely resolved."""
    import_plugins(plugin)
    if preset is None:
        raise SparclError("Say what to run, for example: sparcl run digits/derpp (see `sparcl presets`).")
    values = settings.from_file(Path(preset)) if preset.endswith(".toml") else settings.from_preset(preset)
    if protocol is not None:
        values["protocol"] = protocol
    values = settings.with_changes(values, change or [])
    return settings.resolve(values if weights is None else {**values, "weights": weights})


@contextlib.contextmanager
def _new_directory(chosen: settings.Settings, out: Path | None) -> Iterator[RunDirectory]:
    """A directory that no other process takes too; if nothing was put into it, it goes again."""
    if out is not None:
        RunDirectory.check_free(out)
    is_ours = out is None or not out.exists()
    with contextlib.ExitStack() as stack:
        path, held = _own_directory(stack, chosen) if out is None else (out, _locked(stack, out))
        RunDirectory.check_free(path)  # again: it may have been taken, and left, before it was locked
        directory = RunDirectory(path, held)
        directory.remove_leftovers()
        try:
            yield directory
        finally:
            if is_ours and held.is_at(path):
                with contextlib.suppress(OSError):  # what is not empty stays
                    path.rmdir()
                    if out is None:
                        path.parent.rmdir()


def _own_directory(stack: contextlib.ExitStack, chosen: settings.Settings) -> tuple[Path, Directory]:
    """The first name of this run that is free; that of a run which was killed before it had begun is free as well."""
    name = comparison.short_name(chosen).replace("/", "-")
    if chosen.protocol != "full":
        name += f"-{chosen.protocol}"
    name += f"-seed{chosen.seed}"
    for number in itertools.count(1):
        path = Path("runs") / (name if number == 1 else f"{name}-{number}")
        with contextlib.ExitStack() as attempt, contextlib.suppress(BusyError):
            held = _locked(attempt, path) if RunDirectory.is_free(path) else None
            if held is not None and RunDirectory.is_free(path):  # still, now that nobody else may write
                stack.push(attempt.pop_all())
                return path, held
    raise AssertionError


def _locked(stack: contextlib.ExitStack, path: Path) -> Directory:
    try:
        make_directory(path)
        return stack.enter_context(locked(path))
    except OSError as error:
        raise write_error(path, error) from error
