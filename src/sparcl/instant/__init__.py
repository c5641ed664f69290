"""Learning at once: features of a frozen backbone, and a discriminant in closed form over them."""

__all__: list[str] = []  # modules are imported by name: predicting must not load what only learning needs
