"""Networks that compute: the protocol, the parameters, the optimizer, and the backends."""

from sparcl.network.backend import Backend, build_network, choose_backend
from sparcl.network.frozen import FrozenNetwork
from sparcl.network.optimizer import AdamW, Optimizer, OptimizerSettings, Sgd, make_optimizer
from sparcl.network.parameters import FlatStore, Parameters
from sparcl.network.protocol import Context, Features, Images, Logits, Network

__all__ = [
    "AdamW",
    "Backend",
    "Context",
    "Features",
    "FlatStore",
    "FrozenNetwork",
    "Images",
    "Logits",
    "Network",
    "Optimizer",
    "OptimizerSettings",
    "Parameters",
    "Sgd",
    "build_network",
    "choose_backend",
    "make_optimizer",
]
