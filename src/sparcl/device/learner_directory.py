"""The directory of a learner, held open: everything is read and written relative to it.

Whoever renames it while it learns takes the work with it; whatever else gets its old name is not touched.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from sparcl.device import initial_weights
from sparcl.device import pending as pending_directory
from sparcl.device import settings as learner_settings
from sparcl.device import states as state_files
from sparcl.device.initial_weights import write_initial
from sparcl.device.model import check_learner
from sparcl.device.pending import PendingDirectory, PendingTask
from sparcl.device.settings import LearnerSettings
from sparcl.device.states import States
from sparcl.errors import SparclError
from sparcl.files import LEFTOVER, Directory, locked, make_directory, write_error
from sparcl.tensor_files import Tensors

WRITTEN_IN = (
    state_files.DIRECTORY,
    pending_directory.DIRECTORY,
    f"{pending_directory.DIRECTORY}/{pending_directory.CHECKPOINTS}",
)


class LearnerDirectory:
    def __init__(self, home: Directory) -> None:
        self.home = home
        self.states = States(home.subdirectory(state_files.DIRECTORY))
        self.pending = PendingDirectory(home)
        self.interrupted: PendingTask | None = None  # found when the directory was locked; it can be resumed

    @classmethod
    def open(cls, path: Path) -> "LearnerDirectory":
        """To look at: it may change meanwhile."""
        check_learner(path)
        try:
            return cls(Directory.open(path))
        except OSError as error:
            raise SparclError(f"{path} could not be read: {error.strerror or error}.") from error

    @classmethod
    @contextlib.contextmanager
    def locked(
        cls, path: Path, settings: LearnerSettings, damaged_pending: bool = False
    ) -> Iterator["LearnerDirectory"]:
        """To change it. What somebody left who was killed here is removed; `damaged_pending` is no obstacle if all that
        is to be done with it is to drop it."""
        check_learner(path)
        with locked(path) as home:
            if learner_settings.load(home) != settings:
                raise SparclError(f"{path} is another learner than the one that was opened. Open it again.")
            directory = cls(home)
            home.remove_leftovers(*WRITTEN_IN)
            directory.pending.remove_dropped()
            with contextlib.suppress(SparclError) if damaged_pending else contextlib.nullcontext():
                directory._find_interrupted()
            yield directory

    def _find_interrupted(self) -> None:
        """A power cut between the new state and the removal of what led to it leaves a session that is finished."""
        if not self.pending.exists():
            return
        found = self.pending.read_task()
        if found.request.base < self.states.newest():
            self.pending.clear()
        else:
            self.interrupted = found

    def check_name(self, interrupted: bool = False) -> None:
        """Raises SparclError if the directory was renamed meanwhile, or another one was put in its place."""
        path = self.home.path
        if self.home.is_at(path):
            return
        now = self.home.current_path()
        if interrupted:
            raise SparclError(
                f"Stopped; nothing is lost. But {path} was renamed or replaced while it learned: it is {now} now, "
                "and can be resumed there."
            )
        raise SparclError(
            f"{path} was renamed or replaced while it learned. What was learned is in {now}, "
            f"which is the learner that was {path} before; what is at {path} now was not touched."
        )


def make_learner(path: Path, settings: LearnerSettings, initial: Tensors | None = None) -> None:
    """An empty one, perhaps with weights to start from."""
    try:
        make_directory(path)
        with locked(path) as home:
            if not is_free(path):  # somebody was faster
                raise SparclError(f"{path} is not empty any more. Choose another directory.")
            with home.subdirectory(state_files.DIRECTORY, make=True) as states:
                if initial is not None:
                    write_initial(States(states), initial, settings.training.weights)
                elif states.exists(initial_weights.FILE):  # of somebody who was killed here
                    states.remove(initial_weights.FILE)
            learner_settings.store(home, settings)  # from here on it is a learner
            home.remove_leftovers(state_files.DIRECTORY)
    except OSError as error:
        raise write_error(path, error) from error


def is_free(path: Path) -> bool:
    """Whether a directory is empty, but for what a `new` leaves that was cut off by a full disk or a power cut."""

    def left_over(entry: Path, *files: str) -> bool:
        return entry.name in files or LEFTOVER.fullmatch(entry.name) is not None

    return path.is_dir() and all(
        left_over(entry)
        or (
            entry.name == state_files.DIRECTORY
            and entry.is_dir()
            and all(left_over(file, initial_weights.FILE) for file in entry.iterdir())
        )
        for entry in path.iterdir()
    )
