"""How a run's weights and samples changed, read from its metrics."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sparcl.learning.run_directory import RunDirectory
from sparcl.report.events import Adjustment, Epoch, History


@dataclass
class LayerHistory:
    """What is active now, all changes so far, and the share that was never replaced (None: not known)."""

    active: int = 0
    density: float = 0.0
    removed: int = 0
    grown: int = 0
    original_share: float | None = None


@dataclass(frozen=True)
class SparsityHistory:
    epochs: Sequence[Epoch]
    adjustments: Sequence[Adjustment]  # changes of masks and of samples, in order

    @classmethod
    def of(cls, directory: RunDirectory) -> "SparsityHistory":
        history = History.of(directory)
        return cls(history.epochs, history.adjustments)

    def rows(self) -> Iterator[list[str]]:
        """One row an epoch; the changes at its end, and those at the start of a task in the row of its first epoch."""
        for epoch in self.epochs:
            changes = [
                layer
                for adjustment in self.adjustments
                if (adjustment.task, adjustment.epoch) == (epoch.task, epoch.epoch)
                for layer in adjustment.layers.values()
            ]
            yield [
                str(epoch.task + 1),
                str(epoch.epoch + 1),
                "-" if epoch.samples is None else f"{epoch.samples:,}",
                "1" if epoch.density is None else f"{epoch.density:.3f}",
                "1" if epoch.gradient_density is None else f"{epoch.gradient_density:.3f}",
                f"{sum(layer.removed for layer in changes):,}",
                f"{sum(layer.grown for layer in changes):,}",
                f"{epoch.loss:.3f}",
                f"{epoch.train_accuracy:.1f}%",
            ]

    def layers(self) -> dict[str, LayerHistory]:
        """Of each sparse layer."""
        found: dict[str, LayerHistory] = {}
        adjustments: Counter[str] = Counter()
        for adjustment in self.adjustments:
            for name, layer in adjustment.layers.items():
                total = found.setdefault(name, LayerHistory())
                total.removed += layer.removed
                total.grown += layer.grown
                total.active, total.density = layer.active, layer.density
                if layer.survivors_by_age and layer.active:
                    adjustments[name] += 1
                    # What was there from the start has lived through all of them.
                    total.original_share = layer.survivors_by_age.get(adjustments[name], 0) / layer.active
        return found
