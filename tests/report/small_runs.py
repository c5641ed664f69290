"""Small real runs: the first two tasks of the digits, in this process."""

from pathlib import Path

from sparcl.data import load_stream
from sparcl.learning import environment, settings
from sparcl.learning.run_directory import RunDirectory
from sparcl.learning.trainer import Trainer

SMALL = ["data.tasks=2", "epochs=3", "width=4", "threads=1", "buffer_size=30", "backend=native"]


class Nobody:
    def started(self, *_): ...
    def stepped(self, *_): ...
    def evaluated(self, *_): ...
    def noted(self, *_): ...
    def warned(self, *_): ...


def small_run(path: Path, preset: str, *changes: str, listener=None) -> Path:
    values = settings.with_changes(settings.from_preset(preset), [*SMALL, *changes])
    chosen = settings.resolve(values)
    stream = load_stream(chosen.dataset, order_seed=chosen.seed, **vars(chosen.data))
    trainer = Trainer(chosen, stream, RunDirectory(path), listener or Nobody())
    RunDirectory.create(path, trainer.settings, environment.describe())
    trainer.run()
    return path
