"""Methods that keep the network as it was before the current task."""

from collections.abc import Mapping
from typing import Any, ClassVar

from numpy.typing import NDArray

from sparcl.data import Task
from sparcl.methods.method import Method, MethodContext
from sparcl.network import FrozenNetwork, Images, Logits


class WithOldNetwork(Method):
    """Gives a method `self.old`, None in the first task, and its logits."""

    old_network_passes: ClassVar[int] = 1

    def __init__(self, context: MethodContext, hyperparameters: Mapping[str, Any]) -> None:
        super().__init__(context, hyperparameters)
        self.old: FrozenNetwork | None = None

    def begin_task(self, task: Task) -> None:
        super().begin_task(task)
        if task.index > 0:
            self.old = FrozenNetwork(self.network)

    def old_logits(self, images: Images) -> Logits:
        assert self.old is not None
        self.watcher.extra_pass(len(images), self.old.network, backward=False)
        return self.old.predict(images)

    def state(self) -> dict[str, NDArray[Any]]:
        old = {} if self.old is None else self.old.state()
        return super().state() | {f"old.{key}": array for key, array in old.items()}

    def restore(self, state: dict[str, NDArray[Any]], task: int) -> None:
        super().restore(state, task)
        prefix = "old."
        old = {key.removeprefix(prefix): state[key] for key in state if key.startswith(prefix)}
        self.old = FrozenNetwork.restored(self.network, old) if old else None
