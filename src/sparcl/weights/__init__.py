"""Weights to start from: files of PyTorch, safetensors and our own, read without trusting them, for a graph of ours."""

from sparcl.weights.load import Weights, load_weights
from sparcl.weights.names import Matches

__all__ = ["Matches", "Weights", "load_weights"]
