"""The page about a learner with a backbone: one module for each section."""

__all__: list[str] = []
