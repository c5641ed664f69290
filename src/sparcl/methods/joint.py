"""Training on the data of all tasks at once: the upper bound."""

from typing import ClassVar

from sparcl.methods.sgd import FineTuning


class Joint(FineTuning, name="joint"):
    """Not continual learning: what the network could reach if nothing had to be remembered."""

    learns_all_tasks_at_once: ClassVar[bool] = True
