"""SparCL: continual learning on small devices, with networks that stay sparse through all of their training."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    Learner: Any


def __getattr__(name: str) -> Any:
    """What is loaded when somebody asks: the learner, and the version, which loads modules worth 5 MB."""
    if name == "Learner":
        return import_module("sparcl.device.learner").Learner
    if name == "__version__":
        return str(import_module("importlib.metadata").version("sparcl-edge"))
    raise AttributeError(f"module 'sparcl' has no attribute {name!r}")


def from_torch(module: Any, input_shape: tuple[int, int, int]) -> Any:
    """A torch module as (Graph, Parameters), for images of shape (channels, height, width). See network/from_torch.py.

    Loaded by name when it is called: importing the package must import neither torch nor any of its rooms.
    """
    return import_module("sparcl.network.from_torch").from_torch(module, input_shape)


def load(path: Any) -> Any:
    """A model file (`sparcl export`) that predicts: needs NumPy and the engine only. See deploy/model.py."""
    return import_module("sparcl.deploy.model").load(path)


def load_weights(path: Any) -> Any:
    """The tensors of a file of weights, by name: PyTorch's, safetensors, or our own. See weights/load.py."""
    return import_module("sparcl.weights.load").load_weights(path)
