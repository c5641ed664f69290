"""Weights to start from: files of PyTorch, safetensors and our own, read without trusting them, for a graph of ours."""

__all__: list[str] = []  # modules are imported by name: predicting with a backbone needs only a few of them
