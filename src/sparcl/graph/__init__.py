"""Networks as small graphs of operations: how they are described, built and counted. Nothing here computes."""

from sparcl.graph.builder import GraphBuilder
from sparcl.graph.graph import Graph, Node
from sparcl.graph.models import MAX_WIDTH, MODELS, build_model
from sparcl.operations import ParameterSpec, Shape

__all__ = ["MAX_WIDTH", "MODELS", "Graph", "GraphBuilder", "Node", "ParameterSpec", "Shape", "build_model"]
