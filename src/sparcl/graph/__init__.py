"""Networks as small graphs of layers: how they are described, built and counted. Nothing here computes."""

from sparcl.graph.builder import GraphBuilder
from sparcl.graph.graph import Graph, Node, ParameterSpec, Shape
from sparcl.graph.models import MAX_WIDTH, MODELS, build_model

__all__ = ["MAX_WIDTH", "MODELS", "Graph", "GraphBuilder", "Node", "ParameterSpec", "Shape", "build_model"]
