"""Measuring: our engine beside the best dense PyTorch can do, on the same machine and within one run.

workload ──► native_side (our steps) ──┐
         ├─► dense (PyTorch's steps) ──┼─► contender (each in a process of its own) ──► timing (round robin, medians)
         └─► onnx_side ────────────────┘                                                    │
                                                          versus, layers, growth ◄──────────┘ ──► tables, plot
memory ──► one contender for each way to train, which reports its own peak
watched: a process with limits. Whoever crashes, hangs or eats memory is left out, with a note below the table
"""

__all__: list[str] = []  # modules are imported by name, so that nothing is loaded that nobody asked for
