"""How a run's weights and samples changed, read from its metrics."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sparcl.learning.run_directory import RunDirectory

Event = dict[str, Any]


@dataclass(frozen=True)
class SparsityHistory:
    epochs: list[Event]
    adjustments: list[Event]  # changes of masks and of samples, in order

    @classmethod
    def of(cls, directory: RunDirectory) -> "SparsityHistory":
        events = directory.events()
        epochs = [event for event in events if event["event"] == "epoch"]
        return cls(epochs, [event for event in events if event["event"] == "sparsity"])

    def rows(self) -> Iterator[list[str]]:
        """One row an epoch; the changes at its end, and those at the start of a task in the row of its first epoch."""
        for epoch in self.epochs:
            changes = [
                layer
                for event in self.adjustments
                if (event["task"], event["epoch"]) == (epoch["task"], epoch["epoch"])
                for layer in event.get("layers", {}).values()
            ]
            yield [
                str(epoch["task"] + 1),
                str(epoch["epoch"] + 1),
                f"{epoch['samples']:,}",
                f"{epoch['density']:.3f}" if "density" in epoch else "1",
                f"{epoch['gradient_density']:.3f}" if "gradient_density" in epoch else "1",
                f"{sum(layer['removed'] for layer in changes):,}",
                f"{sum(layer['grown'] for layer in changes):,}",
                f"{epoch['loss']:.3f}",
                f"{epoch['train_accuracy']:.1f}%",
            ]

    def layers(self) -> dict[str, Event]:
        """Each sparse layer: what is active now, all changes so far, and the share that was never replaced."""
        found: dict[str, Event] = {}
        for event in self.adjustments:
            for name, layer in event.get("layers", {}).items():
                total = found.setdefault(name, {"removed": 0, "grown": 0})
                total["removed"] += layer["removed"]
                total["grown"] += layer["grown"]
                total["active"], total["density"] = layer["active"], layer["density"]
                ages = {int(age): count for age, count in layer.get("survivors_by_age", {}).items()}
                total["original_share"] = ages[max(ages)] / layer["active"] if ages and layer["active"] else None
        return found
