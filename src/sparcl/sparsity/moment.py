"""A moment of a run. A task of K epochs is cut into stages of dk epochs; the last stage may be shorter."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Moment:
    task: int
    epoch: int  # within the task
    step: int  # within the epoch
    total_steps: int  # since the run began
    epochs: int  # of each task

    def stage(self, stage_epochs: int) -> int:
        return self.epoch // stage_epochs

    def stages(self, stage_epochs: int) -> int:
        return -(-self.epochs // stage_epochs)

    def ends_stage(self, stage_epochs: int) -> bool:
        """Whether the end of this epoch is the end of a stage."""
        return (self.epoch + 1) % stage_epochs == 0 or self.epoch + 1 == self.epochs
