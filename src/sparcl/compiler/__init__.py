"""From a graph to a plan: what the engine does step by step, and where in memory everything lies."""

from sparcl.compiler.arena import place_apart
from sparcl.compiler.fuse import bias_norm, unsupported
from sparcl.compiler.plan import Extent, Plan, PlanStep
from sparcl.compiler.schedule import compile_graph

__all__ = ["Extent", "Plan", "PlanStep", "bias_norm", "compile_graph", "place_apart", "unsupported"]
