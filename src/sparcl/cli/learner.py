"""`sparcl new`, `learn`, `status`, `undo`: the learner that lives in a directory. `predict` is in its own module."""

import contextlib
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from sparcl.backbone import DEFAULT_BACKBONE
from sparcl.checked import plain
from sparcl.cli.display import bar_with_time_left, progress_bar
from sparcl.cli.instant_status import show_instant_status
from sparcl.cli.run import ChangeOption
from sparcl.cli.status import show_status
from sparcl.data.frames import MAX_FRAMES, Frames, is_frame_source
from sparcl.data.source import Progress
from sparcl.device import settings as learner_settings
from sparcl.device.kinds import NO_BACKBONE
from sparcl.device.learner import Learner, LearnResult
from sparcl.device.status import describe
from sparcl.errors import SparclError
from sparcl.instant.learner import InstantLearner
from sparcl.instant.status import describe as describe_instant
from sparcl.learning.loop import Stopped
from sparcl.learning.settings import merge, with_changes
from sparcl.learning.stopping import stopping_on_signals
from sparcl.wording import counted, quoted

DirectoryArgument = Annotated[Path, typer.Argument(metavar="LEARNER", help="The learner's directory.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")]

MAX_SKIPPED = 10  # lines

NEW_HELP = """Make an empty learner: a directory that learns classes from folders of pictures.

It sees with a pretrained backbone, so that it learns in seconds and from a few pictures. From scratch (--backbone none)
it needs hundreds of pictures and minutes: that is for sensors, tiny pictures and experiments.

\b
sparcl new shop                                  # with the backbone of the package, pictures of 128x128
sparcl new shop --backbone mine                  # with your own: see sparcl backbone --help
sparcl new shop --image-size 160                 # sees more, and takes longer
sparcl new shop --set unknown=0.1                # says `unknown` more readily
\b
sparcl new shop --backbone none                  # from scratch: 64x64, 90% of the weights pruned, 500 samples kept
sparcl new shop --backbone none --image-size 32 --buffer 5MB      # smaller: for a small board
sparcl new shop --backbone none --width 20 --sparsity 0.95        # a narrower and sparser network
sparcl new shop --backbone none --weights weights.pt              # start from weights
sparcl new shop --backbone none --set epochs=10 --set method.alpha=0.2 --set pictures.flip=false
"""

LEARN_HELP = """Learn classes from folders of pictures: the name of a folder is the name of its class.

With a backbone this takes seconds. What was learned before stays. A folder of a known class adds pictures to it. The
learner changes only when everything is learned: until then, and after a power cut, it is as it was before.

\b
sparcl learn shop photos/apples photos/pears     # two classes
sparcl learn shop plums=more/IMG_2026            # another name than the folder's
sparcl learn shop mug=mug.mp4                    # the frames of a video: distinct and sharp ones
sparcl learn shop mug=camera:0 --seconds 10      # of a camera, from now on
sparcl learn shop photos/plums --minutes 5       # and then learn deeply, for five minutes in all
sparcl learn shop --resume                       # after Ctrl-C or a power cut
"""

DEEPEN_HELP = """Learn deeply: train the upper part of the backbone with SparCL on the pictures that are kept.

What comes out is kept only if pictures that were never trained on are recognised no worse; otherwise the learner stays
as it was. It needs about 130 pictures, and some minutes; at night, for example.

\b
sparcl deepen shop --minutes 10
sparcl deepen shop --anew                        # from the backbone's own weights, after something was forgotten
sparcl deepen shop --resume                      # after Ctrl-C or a power cut
"""


def new(
    directory: DirectoryArgument,
    backbone: Annotated[
        str, typer.Option(metavar="NAME", help="The frozen network that sees for it; none: from scratch.")
    ] = DEFAULT_BACKBONE,
    image_size: Annotated[
        int | None,
        typer.Option(help="Pictures become squares with sides of this many pixels. [default: 128; none: 64]"),
    ] = None,
    model: Annotated[str | None, typer.Option(help="From scratch: the network. [default: resnet18]")] = None,
    width: Annotated[int | None, typer.Option(help="From scratch: channels of its first layer. [default: 32]")] = None,
    sparsity: Annotated[
        float | None, typer.Option(help="From scratch: share of the weights that are pruned; 0: dense. [default: 0.9]")
    ] = None,
    buffer: Annotated[
        str | None,
        typer.Option(help="From scratch: what may be kept for rehearsal, samples (500) or memory (20MB)."),
    ] = None,
    classes: Annotated[
        int | None, typer.Option(help="From scratch: outputs from the start; the network grows when there are more.")
    ] = None,
    held_out: Annotated[
        float | None, typer.Option(help="From scratch: share of pictures never trained on, to judge by. [default: 0.1]")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="From scratch: of everything random.")] = None,
    weights: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="From scratch: start from weights: .pt, safetensors, or a run or learner."),
    ] = None,
    change: ChangeOption = None,
) -> None:
    pictures = {"size": image_size, "held_out": held_out}
    training: dict[str, Any] = {"model": model, "width": width, "sparsity": sparsity, "seed": seed}
    if sparsity == 0:
        training["sparsifier"] = {"name": "none"}
    if weights is not None:
        training["weights"] = {"file": str(weights)}
    values = {"backbone": backbone, "classes": classes, "pictures": _given(pictures), "training": _given(training)}
    if buffer is not None:
        values = merge(values, learner_settings.buffer_budget(buffer))
    changes = learner_settings.split(with_changes({}, change or []))
    settings = learner_settings.make(learner_settings.with_defaults(merge(_given(values), changes)))
    learner = Learner.create_from(directory, settings, print)
    side = settings.pictures.size
    if settings.backbone == NO_BACKBONE:
        network = learner.status()["network"]
        print(f"{directory} is ready: {network['model']} of width {network['width']}, pictures of {side}x{side}.")
    else:
        print(f"{directory} is ready: it sees with the backbone {settings.backbone}, pictures of {side}x{side}.")
    print(f"Teach it: sparcl learn {quoted(directory)} FOLDER FOLDER ...")


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def learn(
    directory: DirectoryArgument,
    folders: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME=]FOLDER...", help="A folder, a video or a camera (camera:0) for each class."),
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(help="With a backbone: then learn deeply. From scratch: be done within this time.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="From scratch: passes over the pictures, if not as set.")] = None,
    seconds: Annotated[
        float | None,
        typer.Option(help="Look at a camera or video this long, at most. [default: 10; a video: all of it]"),
    ] = None,
    frames: Annotated[int, typer.Option(help="Keep this many frames of a camera or video, at most.")] = MAX_FRAMES,
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
                classes = named_folders(folders or [], seconds, frames)
                learned = learner.learn(
                    classes, minutes=minutes, epochs=epochs, listener=display, progress=display.reading()
                )
        except Stopped:
            display.close()
            print(_stopped(learner, directory), file=sys.stderr)
            raise typer.Exit(128 + received[0] if received else 1) from None
    if as_json:
        told = {
            "skipped_pictures": list(learned.skipped),
            "cautions": list(learned.cautions),
            "advice": list(learned.advice),
            "deepened": learned.deepened,
        }
        print(json.dumps({**plain(learned.entry), **told}))
    elif resume and learned.deepened:
        print(learned.deepened)
    else:
        _show(learned)
        for line in learned.advice:
            print(line)
    for caution in learned.cautions:
        print(f"WARNING: {caution}", file=sys.stderr)


def deepen(
    directory: DirectoryArgument,
    minutes: Annotated[float | None, typer.Option(help="Be done within this many minutes.")] = None,
    anew: Annotated[bool, typer.Option("--anew", help="Begin with the backbone's own weights.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a session that was interrupted.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only the result.")] = False,
) -> None:
    learner = Learner.open(directory)
    if resume and (minutes or anew):
        raise SparclError("--resume continues a session as it was started: give no --minutes or --anew.")
    with LearnDisplay(quiet) as display, stopping_on_signals(learner) as received:
        try:
            done = learner.resume(display).deepened if resume else learner.deepen(minutes, anew=anew, listener=display)
        except Stopped:
            display.close()
            print(_stopped(learner, directory, "deepen"), file=sys.stderr)
            raise typer.Exit(128 + received[0] if received else 1) from None
    print(done)


def status(directory: DirectoryArgument, as_json: JsonOption = False) -> None:
    """Show what a learner knows: classes, samples kept, sparsity, sizes, accuracy, history.

    Example: sparcl status shop
    """
    learner = Learner.open(directory)
    if as_json:
        print(json.dumps(learner.status()))
    elif isinstance(learner, InstantLearner):
        show_instant_status(describe_instant(learner, at_once=True))
    else:
        show_status(describe(learner))


def undo(directory: DirectoryArgument) -> None:
    """Drop an interrupted learning session; if there is none, go back to before the last finished one.

    Example: sparcl undo shop
    """
    print(Learner.open(directory).undo())


new.__doc__ = NEW_HELP
learn.__doc__ = LEARN_HELP
deepen.__doc__ = DEEPEN_HELP


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


def named_folders(folders: list[str], seconds: float | None = None, frames: int = MAX_FRAMES) -> dict[str, Any]:
    """The class of each folder, video or camera: its own name, or the one before the equals sign."""
    classes: dict[str, Any] = {}
    named_by_folder: dict[str, str] = {}
    for given in folders:
        name, equals, path = given.partition("=")
        if not equals or Path(given).exists():
            path = given
            if is_frame_source(given):
                if Frames(given).camera is not None:
                    raise SparclError(f"Say what {given} shows: NAME={given}")
                name = Path(given).stem
            else:
                name = Path(given).name  # of a link its own name, not its target's
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
        if path and is_frame_source(path):
            classes.setdefault(name, []).append(Frames(path, seconds, frames))
            continue
        if not path or not Path(path).is_dir():
            raise SparclError(f"{path or given} is not a folder. Give a folder of pictures for each class.")
        classes.setdefault(name, []).append(path)
    return {name: paths[0] if len(paths) == 1 else paths for name, paths in classes.items()}


def _stopped(learner: Learner, directory: Path, command: str = "learn") -> str:
    try:
        with_backbone = learner.settings.backbone != NO_BACKBONE
        learning = learner.pending.begun() if with_backbone else learner.pending.exists()
    except SparclError:  # renamed while its pictures were read
        learning = False
    if learning:
        return (
            f"Stopped; nothing is lost. Until it is continued, {directory} is as it was before. "
            f"Continue with: sparcl {command} {quoted(directory)} --resume"
        )
    return f"Stopped before learning began: {directory} is as it was before."


def _show(learned: LearnResult) -> None:
    entry, console = learned.entry, Console(highlight=False, markup=False, soft_wrap=True)
    for line in learned.skipped[:MAX_SKIPPED]:
        console.print(f"skipped: {line}")
    if len(learned.skipped) > MAX_SKIPPED:
        console.print(f"skipped: {len(learned.skipped) - MAX_SKIPPED:,} more (--json lists all)")
    pictures = ", ".join(f"{name} ({counted(count, 'picture')})" for name, count in entry.pictures.items())
    at_once = not entry.epochs
    how = f"{entry.seconds:.1f} s" if at_once else f"{entry.seconds:.0f} s, {counted(entry.epochs, 'epoch')}"
    console.print(f"Learned {pictures} in {how}.")
    before, after = entry.before, entry.after
    if after.accuracy is None:
        console.print("No picture could be held out, so how good it is cannot be said.")
    else:
        known = sum(count for _, count in after.held_out.values())
        seen = ", each judged by all the others" if at_once else " it was not trained on"
        console.print(f"Accuracy on {counted(known, 'picture')}{seen}: {after.accuracy:.1f}%.")
    if after.accuracy is not None and before is not None and before.accuracy is not None:
        same = after.of(list(before.held_out)).accuracy
        console.print(f"On the classes known before: {before.accuracy:.1f}% before, {same:.1f}% now.")
    if learned.deepened:
        console.print(learned.deepened)
    if len(entry.new) == 1 and (before is None or not before.held_out) and len(after.held_out) < 2:
        console.print("One class alone cannot be told from anything: learn another one.")
