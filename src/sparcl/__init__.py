"""Continual learning on small devices, with networks that stay sparse through all of their training.

    learner = sparcl.Learner.create("shop")                   # a learner lives in a directory
    learner.learn({"apples": "photos/apples", "pears": "photos/pears"})
    learner.predict("image.jpg")[0].name                      # "apples"
    learner.evaluate({"apples": "test/apples"}).accuracy      # in percent

    model = sparcl.load("fruit.sparcl")                       # written by `sparcl export`
    model.predict(pixels)                                     # logits

    graph, parameters = sparcl.from_torch(module, (3, 32, 32))
    weights = sparcl.load_weights("resnet18.pt")              # never unpickled
    sparcl.save_backbone(graph, parameters, "my.safetensors") # for `sparcl backbone import`

Everything that goes wrong because of its input raises SparclError, whose text is one line that says what to do.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from sparcl.errors import SparclError

if TYPE_CHECKING:
    from sparcl.backbone.file import save_backbone
    from sparcl.data.frames import Frames
    from sparcl.deploy.model import Model, load
    from sparcl.device.evaluation import Evaluation
    from sparcl.device.learner import Learner, LearnResult
    from sparcl.device.prediction import Prediction
    from sparcl.graph import Graph
    from sparcl.network.from_torch import from_torch
    from sparcl.network.parameters import Parameters
    from sparcl.weights.load import Weights, load_weights

    __version__: str
else:
    # Loaded when somebody asks for it: importing the package loads neither torch nor any of its rooms.
    _HOMES = {
        "Evaluation": "sparcl.device.evaluation",
        "Frames": "sparcl.data.frames",
        "Graph": "sparcl.graph",
        "LearnResult": "sparcl.device.learner",
        "Learner": "sparcl.device.learner",
        "Model": "sparcl.deploy.model",
        "Parameters": "sparcl.network.parameters",
        "Prediction": "sparcl.device.prediction",
        "Weights": "sparcl.weights.load",
        "from_torch": "sparcl.network.from_torch",
        "load": "sparcl.deploy.model",
        "load_weights": "sparcl.weights.load",
        "save_backbone": "sparcl.backbone.file",
    }

    def __getattr__(name):
        if name == "__version__":
            return import_module("importlib.metadata").version("sparcl-edge")
        if name not in _HOMES:
            raise AttributeError(f"module 'sparcl' has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)

    def __dir__():
        return [*globals(), *__all__]


__all__ = [
    "Evaluation",
    "Frames",
    "Graph",
    "LearnResult",
    "Learner",
    "Model",
    "Parameters",
    "Prediction",
    "SparclError",
    "Weights",
    "__version__",
    "from_torch",
    "load",
    "load_weights",
    "save_backbone",
]
