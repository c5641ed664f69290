"""Continual-learning methods, one file each. Every module here is imported, so a new file is a new method."""

import importlib
import pkgutil

from sparcl.methods.batch import Batch
from sparcl.methods.buffer import Replay, ReservoirBuffer
from sparcl.methods.losses import Loss, cross_entropy, logit_mse, torch_loss
from sparcl.methods.method import METHODS, Method, Workplace
from sparcl.methods.rehearsal import Rehearsal

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = [
    "METHODS",
    "Batch",
    "Loss",
    "Method",
    "Rehearsal",
    "Replay",
    "ReservoirBuffer",
    "Workplace",
    "cross_entropy",
    "logit_mse",
    "torch_loss",
]
