"""Continual-learning methods, one file each. Every module here is imported, so a new file is a new method."""

import importlib
import pkgutil

from sparcl.methods.batch import Batch
from sparcl.methods.buffer import RehearsalBuffer, Replay, ReservoirBuffer, TaskwiseBuffer
from sparcl.methods.losses import Loss, cross_entropy, logit_mse, torch_loss
from sparcl.methods.method import METHODS, Method, MethodContext
from sparcl.methods.old_network import WithOldNetwork
from sparcl.methods.rehearsal import Rehearsal, TaskwiseRehearsal, WithBuffer

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = [
    "METHODS",
    "Batch",
    "Loss",
    "Method",
    "MethodContext",
    "Rehearsal",
    "RehearsalBuffer",
    "Replay",
    "ReservoirBuffer",
    "TaskwiseBuffer",
    "TaskwiseRehearsal",
    "WithBuffer",
    "WithOldNetwork",
    "cross_entropy",
    "logit_mse",
    "torch_loss",
]
