"""The command line, one module per command."""

__all__: list[str] = []  # modules are imported by name, so that nothing is loaded that nobody asked for
