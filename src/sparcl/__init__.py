"""SparCL: continual learning on small devices, with networks that stay sparse through all of their training."""

from importlib import import_module
from importlib.metadata import version
from typing import Any

__version__ = version("sparcl-edge")


def from_torch(module: Any, input_shape: tuple[int, int, int]) -> Any:
    """A torch module as (Graph, Parameters), for images of shape (channels, height, width). See network/from_torch.py.

    Loaded by name when it is called: importing the package must import neither torch nor any of its rooms.
    """
    return import_module("sparcl.network.from_torch").from_torch(module, input_shape)
