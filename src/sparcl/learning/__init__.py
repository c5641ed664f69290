"""Learning a stream of tasks: settings, the loop, run directories and checkpoints."""

__all__: list[str] = []  # modules are imported by name, so that nothing is loaded that nobody asked for
