"""`sparcl new`, `learn`, `status`, `undo`: the learner that lives in a directory. `predict` is in its own module."""

import contextlib
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from sparcl.checked import plain
from sparcl.cli.display import bar_with_time_left, progress_bar
from sparcl.cli.run import ChangeOption
from sparcl.cli.status import show_status
from sparcl.data.source import Progress
from sparcl.device import settings as learner_settings
from sparcl.device.learner import Learner, LearnResult
from sparcl.device.status import describe
from sparcl.errors import SparclError
from sparcl.learning.loop import Stopped
from sparcl.learning.settings import merge, with_changes
from sparcl.learning.stopping import stopping_on_signals
from sparcl.wording import counted, quoted

DirectoryArgument = Annotated[Path, typer.Argument(metavar="LEARNER", help="The learner's directory.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")]

MAX_SKIPPED = 10  # lines

NEW_HELP = """Make an empty learner: a directory that learns classes from folders of pictures.

\b
sparcl new shop                                  # pictures of 64x64, 90% of the weights pruned, 500 samples kept
sparcl new shop --image-size 32 --buffer 5MB     # smaller: for a small board
sparcl new shop --width 20 --sparsity 0.95       # a narrower and sparser network
sparcl new shop --classes 10                     # room for ten classes from the start (it grows in any case)
sparcl new shop --weights weights.pt             # start from weights: .pt, safetensors, a run or a learner
sparcl new shop --set epochs=10 --set method.alpha=0.2 --set pictures.flip=false
"""

LEARN_HELP = """Learn classes from folders of pictures: the name of a folder is the name of its class.

What was learned before stays. A folder of a known class adds pictures to it. The learner changes only when everything
is learned: until then, and after a power cut, it is as it was before.

\b
sparcl learn shop photos/apples photos/pears     # two classes
sparcl learn shop photos/plums --minutes 5       # one more, in five minutes
sparcl learn shop plums=more/IMG_2026            # another name than the folder's
sparcl learn shop --resume                       # after Ctrl-C or a power cut
"""


def new(
    directory: DirectoryArgument,
    image_size: Annotated[int, typer.Option(help="Pictures become squares with sides of this many pixels.")] = 64,
    model: Annotated[str, typer.Option(help="The network: resnet18 or convnet.")] = "resnet18",
    width: Annotated[int, typer.Option(help="Channels of its first layer.")] = 32,
    sparsity: Annotated[float, typer.Option(help="Share of the weights that are pruned; 0: dense.")] = 0.9,
    buffer: Annotated[
        str, typer.Option(help="What may be kept for rehearsal: samples (500) or memory (20MB).")
    ] = "500",
    classes: Annotated[int, typer.Option(help="Outputs from the start; the network grows when there are more.")] = 0,
    held_out: Annotated[float, typer.Option(help="Share of pictures never trained on, to judge by.")] = 0.1,
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
    weights: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Start from weights: .pt, safetensors, or a run or learner."),
    ] = None,
    change: ChangeOption = None,
) -> None:
    values: dict[str, Any] = {
        "classes": classes,
        "pictures": {"size": image_size, "held_out": held_out},
        "training": {"model": model, "width": width, "sparsity": sparsity, "seed": seed},
    }
    if not sparsity:
        values["training"]["sparsifier"] = {"name": "none"}
    values = merge(values, learner_settings.buffer_budget(buffer))
    if weights is not None:
        values["training"]["weights"] = {"file": str(weights)}
    changes = learner_settings.split(with_changes({}, change or []))
    learner = Learner.create_from(directory, learner_settings.make(merge(values, changes)), print)
    network = learner.status()["network"]
    side = network["image_size"]
    print(f"{directory} is ready: {network['model']} of width {network['width']}, pictures of {side}x{side}.")
    print(f"Teach it: sparcl learn {quoted(directory)} FOLDER FOLDER ...")


def learn(
    directory: DirectoryArgument,
    folders: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME=]FOLDER...", help="One folder for each class.")
    ] = None,
    minutes: Annotated[float | None, typer.Option(help="Be done within this many minutes.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the pictures, if not as set by `new`.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a learning session that was interrupted.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only the result.")] = False,
    as_json: JsonOption = False,
) -> None:
    learner = Learner.open(directory)
    if resume and (folders or minutes or epochs):
        raise SparclError(
            "--resume continues a learning session as it was started: give no folders, --minutes or --epochs."
        )
    if not resume and not folders:
        raise SparclError(
            f"Say what to learn, for example: sparcl learn {quoted(directory)} photos/apples photos/pears"
        )
    silent = quiet or as_json
    with LearnDisplay(silent) as display, stopping_on_signals(learner) as received:
        try:
            if resume:
                learned = learner.resume(display)
            else:
                classes = _classes(folders or [])
                learned = learner.learn(
                    classes, minutes=minutes, epochs=epochs, listener=display, progress=display.reading()
                )
        except Stopped:
            display.close()
            print(_stopped(learner, directory), file=sys.stderr)
            raise typer.Exit(128 + received[0] if received else 1) from None
    if as_json:
        told = {"skipped_pictures": list(learned.skipped), "cautions": list(learned.cautions)}
        print(json.dumps({**plain(learned.entry), **told}))
    else:
        _show(learned)
    for caution in learned.cautions:
        print(f"WARNING: {caution}", file=sys.stderr)


def status(directory: DirectoryArgument, as_json: JsonOption = False) -> None:
    """Show what a learner knows: classes, samples kept, sparsity, sizes, accuracy, history.

    Example: sparcl status shop
    """
    learner = Learner.open(directory)
    if as_json:
        print(json.dumps(learner.status()))
    else:
        show_status(describe(learner))


def undo(directory: DirectoryArgument) -> None:
    """Drop an interrupted learning session; if there is none, go back to before the last finished one.

    Example: sparcl undo shop
    """
    print(Learner.open(directory).undo())


new.__doc__ = NEW_HELP
learn.__doc__ = LEARN_HELP


class LearnDisplay:
    """One progress bar for reading pictures, then one with the time left. In a log file: a line an epoch."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._bar = bar_with_time_left(quiet)
        self._task: Any = None
        self._reading = contextlib.ExitStack()
        self._epoch = self._epochs = 0
        self._losses: list[float] = []  # of the steps of this epoch

    def reading(self) -> Progress:
        return self._reading.enter_context(progress_bar(self._quiet))

    def __enter__(self) -> "LearnDisplay":
        return self

    def __exit__(self, error: object, *_: object) -> None:
        if error is None:
            self._epoch_ended()  # time may have run out in it
        self.close()

    def close(self) -> None:
        self._reading.close()
        self._bar.stop()

    def noted(self, text: str) -> None:
        self._bar.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def started(self, total_steps: int, done_steps: int) -> None:
        self._reading.close()
        self._bar.start()
        self._task = self._bar.add_task("learning", total=total_steps, completed=done_steps, loss="")

    def stepped(self, epoch: int, epochs: int, step: int, total_steps: int, loss: float) -> None:
        if epoch != self._epoch:
            self._epoch_ended()
        self._epoch, self._epochs = epoch, epochs
        self._losses.append(loss)
        place = f"epoch {epoch + 1}/{epochs}"
        self._bar.update(self._task, description=place, completed=step, total=total_steps, loss=f"loss {loss:.3f}")
        if step >= total_steps:
            self._epoch_ended()

    def _epoch_ended(self) -> None:
        if self._losses and self._bar.disable and not self._quiet:
            mean = sum(self._losses) / len(self._losses)
            self._bar.console.print(f"epoch {self._epoch + 1}/{self._epochs}, mean loss {mean:.3f}", highlight=False)
        self._losses.clear()


def _classes(folders: list[str]) -> dict[str, str | Path]:
    """The class of each folder: its own name, or the one before the equals sign."""
    classes: dict[str, Any] = {}
    named_by_folder: dict[str, str] = {}
    for given in folders:
        name, equals, path = given.partition("=")
        if not equals or Path(given).exists():
            name, path = Path(given).name, given  # of a link its own name, not its target's
            if name in ("", ".."):
                name = Path(given).resolve().name
            if name in named_by_folder:
                other = named_by_folder[name]
                raise SparclError(
                    f"{other} and {given} have the same name. If both hold pictures of one class, say so: "
                    f"{quoted(f'{name}={other}')} {quoted(f'{name}={given}')}; otherwise give one of them a name "
                    "of its own: NAME=FOLDER."
                )
            named_by_folder[name] = given
        if not path or not Path(path).is_dir():
            raise SparclError(f"{path or given} is not a folder. Give a folder of pictures for each class.")
        classes.setdefault(name, []).append(path)
    return {name: paths[0] if len(paths) == 1 else paths for name, paths in classes.items()}


def _stopped(learner: Learner, directory: Path) -> str:
    try:
        learning = learner.pending.exists()
    except SparclError:  # renamed while its pictures were read
        learning = False
    if learning:
        return (
            f"Stopped; nothing is lost. Until it is continued, {directory} is as it was before. "
            f"Continue with: sparcl learn {quoted(directory)} --resume"
        )
    return f"Stopped before learning began: {directory} is as it was before."


def _show(learned: LearnResult) -> None:
    entry, console = learned.entry, Console(highlight=False, markup=False, soft_wrap=True)
    for line in learned.skipped[:MAX_SKIPPED]:
        console.print(f"skipped: {line}")
    if len(learned.skipped) > MAX_SKIPPED:
        console.print(f"skipped: {len(learned.skipped) - MAX_SKIPPED:,} more (--json lists all)")
    pictures = ", ".join(f"{name} ({counted(count, 'picture')})" for name, count in entry.pictures.items())
    console.print(f"Learned {pictures} in {entry.seconds:.0f} s, {counted(entry.epochs, 'epoch')}.")
    before, after = entry.before, entry.after
    if after.accuracy is None:
        console.print("No pictures were held out, so how good it is cannot be said.")
        return
    known = sum(count for _, count in after.held_out.values())
    console.print(f"Accuracy on {counted(known, 'picture')} it was not trained on: {after.accuracy:.1f}%.")
    if before is not None and before.accuracy is not None:
        same = after.of(list(before.held_out)).accuracy
        console.print(f"On the classes known before: {before.accuracy:.1f}% before, {same:.1f}% now.")
    if len(after.held_out) == 1 and len(entry.new) == 1 and before is not None and not before.held_out:
        console.print("One class alone cannot be told from anything: learn another one.")
