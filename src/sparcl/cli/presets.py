"""`sparcl presets`: what can be run."""

from rich.console import Console
from rich.table import Table

from sparcl.cli.display import print_table
from sparcl.cli.run import PluginOption
from sparcl.data import DATASETS
from sparcl.learning.plugins import import_plugins
from sparcl.learning.protocols import DEFAULT_PROTOCOL, PROTOCOLS
from sparcl.methods import METHODS
from sparcl.sparsity import SPARSIFIERS


def presets(plugin: PluginOption = None) -> None:
    """List what presets are made of: DATASET/METHOD, or DATASET/SPARSIFIER-METHOD-PERCENT."""
    import_plugins(plugin)
    table = Table("data set", "protocols", "what it is", box=None, pad_edge=False)
    for dataset, source in DATASETS.items():
        table.add_row(dataset, ", ".join(PROTOCOLS.get(dataset, {DEFAULT_PROTOCOL: {}})), source.description)
    print_table(table)
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"\nmethods      {', '.join(sorted(METHODS))}")
    console.print(f"sparsifiers  {', '.join(sorted(name for name in SPARSIFIERS if name != 'none'))}")
    console.print("\nFor example: digits/derpp, cifar10/er, cifar10/sparcl-derpp-90 (sparsity 0.90).")
