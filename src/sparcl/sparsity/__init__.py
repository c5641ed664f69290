"""Which weights, samples and gradients take part in training. Every module here is imported: a file is a sparsifier."""

import importlib
import pkgutil

from sparcl.sparsity.layers import Layer, sparse_layers
from sparcl.sparsity.moment import Moment
from sparcl.sparsity.sparsifier import SPARSIFIERS, Sparsifier, SparsifierContext

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["SPARSIFIERS", "Layer", "Moment", "Sparsifier", "SparsifierContext", "sparse_layers"]
