"""Setting up a run in its directory and learning it, the same way for `sparcl run` and for the worker of a trial."""

from dataclasses import replace
from typing import Any

from sparcl.data import Progress, load_stream
from sparcl.learning import environment
from sparcl.learning.run_directory import RunDirectory
from sparcl.learning.settings import Settings
from sparcl.learning.stopping import stopping_on_signals
from sparcl.learning.trainer import RunListener, Stopped, Trainer
from sparcl.network.backend import available_cores


class Run:
    """In a directory that the caller has locked: a new run with the `chosen` settings, or the one that has begun there.

    Loading the data may take a while, which `progress` is told. `prepare` finds out what cannot work before anything is
    written, `learn` writes.
    """

    def __init__(
        self, directory: RunDirectory, chosen: Settings | None = None, progress: Progress | None = None
    ) -> None:
        self.directory = directory
        self.is_new = not directory.has_begun()
        self.settings = _on_this_machine(chosen) if self.is_new and chosen is not None else directory.settings()
        self.stream = load_stream(
            self.settings.dataset, order_seed=self.settings.seed, progress=progress, **vars(self.settings.data)
        )

    def prepare(self, listener: RunListener) -> None:
        self._trainer = Trainer(self.settings, self.stream, self.directory, listener)
        self.settings = self._trainer.settings

    def learn(self) -> dict[str, Any]:
        """To the end, or until a signal or `request_stop` asks for a stop: then everything is saved, and Stopped is
        raised."""
        if self.is_new:
            self.directory.begin(self.settings, environment.describe())
        with stopping_on_signals(self._trainer) as received:
            try:
                return self._trainer.run()
            except Stopped:
                raise Stopped(*received[:1]) from None

    def request_stop(self) -> None:
        """From any thread."""
        self._trainer.request_stop()


def _on_this_machine(chosen: Settings) -> Settings:
    """What a run stores must mean the same wherever it is resumed from."""
    root = chosen.data.root
    if root is not None:
        chosen = replace(chosen, data=replace(chosen.data, root=root.expanduser().resolve()))
    return replace(chosen, threads=chosen.threads or available_cores())
