"""Measuring: our engine beside the best dense PyTorch can do, on the same machine and within one run.

workload ──► native_side (our steps) ──┐
         └─► dense (PyTorch's steps) ──┴─► timing (round robin, medians) ──► versus, layers, growth ──► tables, plot
memory ──► one child process a way to train, each reporting its own peak
"""
