"""The page about runs: one file with everything in it. Each section is a module."""

__all__: list[str] = []  # modules are imported by name, so that nothing is loaded that nobody asked for
