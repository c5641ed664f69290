"""Kills a learner or a run before every single change that it makes to a file, and looks at what is left.

    python -m benchmarks.kill_points              # every change of learn, resume, undo, run and export: a few hundred
    python -m benchmarks.kill_points --every 7
    python -m benchmarks.kill_points --only run

`power_cut` kills at random moments, most of which pass while the network computes; this kills between any two changes.
After each kill the learner must hold the state before or after, bit for bit; `status` must know of an interrupted
session; the next command must leave nothing behind; `undo` must undo what it says and never a finished session on top
of an interrupted one; and continuing must lead to the state that an undisturbed session reaches. A run must be resumed
to the same metrics, byte for byte, from checkpoints that are all whole; an exported file is the old one or the new one.
Exits non-zero otherwise.
"""

import argparse
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sparcl
from benchmarks.commands import sparcl_here
from benchmarks.small_learner import SETTINGS, content, digit_photos
from sparcl.device.learner import Learner
from sparcl.files import Directory
from sparcl.learning import checkpoints
from sparcl.learning.loop import Stopped

CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate")
RUN = [
    *("digits/sparcl-derpp-90", "--quiet", "--set", "data.tasks=2", "--set", "epochs=1", "--set", "width=4"),
    *("--set", "threads=1", "--set", "batch_size=64", "--set", "buffer_size=20", "--set", "checkpoint.minutes=0"),
]


class Killed:
    """Runs something in a process of its own, and kills that before its n-th change of a file."""

    def __init__(self, work: Callable[[Path], object]) -> None:
        self._work = work

    def at(self, directory: Path, point: int) -> int | None:
        """None if it was killed, otherwise how many changes there were."""
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            code = 1
            try:
                changes = 0
                sync = os.fsync

                def count() -> None:
                    nonlocal changes
                    changes += 1
                    if changes > point >= 0:
                        os.kill(os.getpid(), signal.SIGKILL)

                def counted_sync(file: int) -> None:  # what was written before it is there, but has not its name yet
                    count()
                    sync(file)

                def before(event: str, arguments: tuple[Any, ...]) -> None:
                    writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_CREAT
                    if event in CHANGES or writes:
                        count()

                os.fsync = counted_sync
                sys.addaudithook(before)
                self._work(directory)
                os.write(writing, changes.to_bytes(8, "little"))
                code = 0
            finally:
                os._exit(code)
        os.close(writing)
        with open(reading, "rb") as pipe:
            told = pipe.read()
        _, status = os.waitpid(child, 0)
        if not told and not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL):
            sys.exit(f"point {point}: it failed by itself")
        return int.from_bytes(told, "little") if told else None


class StopAtOnce:
    def __init__(self, learner: Learner) -> None:
        self._learner = learner

    def noted(self, text: str) -> None: ...
    def started(self, total_steps: int, done_steps: int) -> None: ...
    def stepped(self, *_: object) -> None:
        self._learner.request_stop()


def learn_or_resume(directory: Path, photos: Path) -> None:
    learner = Learner.open(directory)
    learner.resume() if learner.pending.exists() else learner.learn({"2": photos / "2"})


def check_learner(directory: Path, photos: Path, allowed: list[object], after: object) -> None:
    found = content(Learner.open(directory))
    if found not in allowed:
        sys.exit(f"{directory}: neither the state before nor the one after")
    status = Learner.open(directory).status()
    undone = Path(shutil.copytree(directory, directory.with_name("undone")))
    said = Learner.open(undone).undo()
    newest = Learner.open(undone).states.newest()
    if said.startswith("Dropped the learning session"):
        if not status["interrupted"] or content(Learner.open(undone)) != found:
            sys.exit(f"{directory}: undo dropped what it did not say: {said}")
    elif status["interrupted"] or not said.startswith(f"Undone learning session {newest + 1}:"):
        sys.exit(f"{directory}: undo took back a finished session: {said}")
    check_files(undone)
    shutil.rmtree(undone)
    if found != after:
        learn_or_resume(directory, photos)
        if content(Learner.open(directory)) != after:
            sys.exit(f"{directory}: continuing leads to another state")
        check_files(directory)


def check_files(directory: Path) -> None:
    numbers = Learner.open(directory).states.numbers()
    wanted = {"settings.json", "states", *(f"states/{number:010d}.safetensors" for number in numbers)}
    found = {str(path.relative_to(directory)) for path in directory.rglob("*")}
    if found != wanted:
        sys.exit(f"{directory}: left behind: {', '.join(sorted(found - wanted))}")


def export(directory: Path) -> None:
    sparcl_here("export", directory, directory.with_name("model.sparcl"))


def run(directory: Path) -> None:
    """A new run, or the rest of one."""
    begun = (directory / "settings.json").exists()
    sparcl_here("run", *(("--resume", directory, "-q") if begun else (*RUN, "--out", directory)))


def check_run(directory: Path, finished: Path) -> None:
    if (directory / "checkpoints").is_dir():
        with Directory.open(directory / "checkpoints") as held:
            for name in checkpoints.newest_first(held):
                checkpoints.read(held, name)
    if Killed(run).at(directory, -1) is None:
        sys.exit(f"{directory}: it could not be resumed")
    for name in ("metrics.jsonl", "result.json", "stream.json", "confusion.json", "settings.json"):
        if (directory / name).read_bytes() != (finished / name).read_bytes():
            sys.exit(f"{directory}: {name} is not what an undisturbed run leaves")
    found, wanted = ({str(path.relative_to(root)) for path in root.rglob("*")} for root in (directory, finished))
    if found != wanted:
        sys.exit(f"{directory}: left behind: {', '.join(sorted(found - wanted))}")


def check_export(directory: Path) -> None:
    """The file is either missing or whole, and the next export leaves nothing next to it."""
    target = directory.with_name("model.sparcl")
    if target.exists():
        sparcl.load(target)  # its checksum is right
    Killed(export).at(directory, -1)
    sparcl.load(target)
    beside = {path.name for path in target.parent.iterdir() if path.name.startswith(target.name)}
    if beside != {target.name}:
        sys.exit(f"left behind: {beside}")
    target.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--only", help="only the commands whose name begins so")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # such short sessions forget, and say so
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        photos = digit_photos(root / "photos")
        knows_two = root / "knows two"
        learner = Learner.create(knows_two, **SETTINGS, undo_steps=3)
        learner.learn({"0": photos / "0"})
        learner.learn({"1": photos / "1"})
        knows_three, interrupted = (root / name for name in ("knows three", "interrupted"))
        Learner.open(shutil.copytree(knows_two, knows_three)).learn({"2": photos / "2"})
        stopped = Learner.open(shutil.copytree(knows_two, interrupted))
        with contextlib.suppress(Stopped):
            stopped.learn({"2": photos / "2"}, listener=StopAtOnce(stopped))
        before, after = content(learner), content(Learner.open(knows_three))

        def check(directory: Path) -> None:
            check_learner(directory, photos, [before, after], after)

        def undo(directory: Path) -> None:
            Learner.open(directory).undo()

        finished, nothing = root / "finished", root / "nothing"
        Killed(run).at(finished, -1)
        nothing.mkdir()
        commands: list[tuple[str, Path, Callable[[Path], object], Callable[[Path], None]]] = [
            ("learn", knows_two, lambda directory: learn_or_resume(directory, photos), check),
            ("resume", interrupted, lambda directory: learn_or_resume(directory, photos), check),
            ("undo of a finished session", knows_three, undo, check),
            ("undo of an interrupted session", interrupted, undo, check),
            ("export of a learner", knows_two, export, check_export),
            ("export of a run", finished, export, check_export),
            ("run", nothing, run, lambda directory: check_run(directory, finished)),
        ]
        for name, source, work, look in commands:
            if not name.startswith(options.only or ""):
                continue
            directory = root / "work" / "shop"
            changes = Killed(work).at(Path(shutil.copytree(source, directory)), -1)
            assert changes
            for point in range(0, changes, options.every):
                shutil.rmtree(directory.parent)
                shutil.copytree(source, directory)
                if Killed(work).at(directory, point) is not None:
                    sys.exit(f"{name}: there is no change {point}")
                look(directory)
            shutil.rmtree(directory.parent)
            print(f"{name}: killed before {len(range(0, changes, options.every))} of {changes} changes")


if __name__ == "__main__":
    main()
