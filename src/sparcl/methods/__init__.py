"""Continual-learning methods, one file each. Every module here is imported, so a new file is a new method."""

import importlib
import pkgutil

from sparcl.methods.batch import Batch
from sparcl.methods.buffer import Buffer, Replay, ReservoirBuffer, TaskwiseBuffer
from sparcl.methods.losses import Loss, cross_entropy, logit_mse, torch_loss
from sparcl.methods.method import METHODS, Method, Workplace
from sparcl.methods.old_network import WithOldNetwork
from sparcl.methods.rehearsal import Rehearsal, TaskwiseRehearsal, WithBuffer

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = [
    "METHODS",
    "Batch",
    "Buffer",
    "Loss",
    "Method",
    "Rehearsal",
    "Replay",
    "ReservoirBuffer",
    "TaskwiseBuffer",
    "TaskwiseRehearsal",
    "WithBuffer",
    "WithOldNetwork",
    "Workplace",
    "cross_entropy",
    "logit_mse",
    "torch_loss",
]
