"""What was learned, on its way to where it is used: model files, and predicting with them."""

from sparcl.deploy.model import Model, load

__all__ = ["Model", "load"]
