"""The operations that networks are made of: one file each, which says everything Python knows of it."""

from sparcl.operations.activation import HardSwish, Relu, Relu6
from sparcl.operations.add import Add
from sparcl.operations.average_pool import AveragePool, GlobalAveragePool
from sparcl.operations.batch_norm import Affine, BatchNorm
from sparcl.operations.concat import Concat
from sparcl.operations.conv import Conv
from sparcl.operations.dropout import Dropout
from sparcl.operations.flatten import Flatten
from sparcl.operations.linear import Linear
from sparcl.operations.max_pool import MaxPool
from sparcl.operations.operation import Input, Numbers, OnnxWriter, Operation, ParameterSpec, Shape, TorchPass

__all__ = [
    "Add",
    "Affine",
    "AveragePool",
    "BatchNorm",
    "Concat",
    "Conv",
    "Dropout",
    "Flatten",
    "GlobalAveragePool",
    "HardSwish",
    "Input",
    "Linear",
    "MaxPool",
    "Numbers",
    "OnnxWriter",
    "Operation",
    "ParameterSpec",
    "Relu",
    "Relu6",
    "Shape",
    "TorchPass",
]
