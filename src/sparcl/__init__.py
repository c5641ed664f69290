"""SparCL: continual learning on small devices, with networks that stay sparse through all of their training."""

from importlib.metadata import version

__version__ = version("sparcl-edge")
