"""`sparcl presets`: what can be run."""

from rich.console import Console
from rich.table import Table

from sparcl.data import DATASETS
from sparcl.learning.protocols import PROTOCOLS
from sparcl.methods import METHODS


def presets() -> None:
    """List every preset, DATASET/METHOD, and the protocols of each data set."""
    table = Table("data set", "what it is", "protocols", "presets")
    for dataset, source in DATASETS.items():
        names = " ".join(f"{dataset}/{method}" for method in sorted(METHODS))
        table.add_row(dataset, source.description, ", ".join(PROTOCOLS[dataset]), names)
    Console().print(table)
