"""The learner that lives in a directory: it learns classes from folders of pictures, as they come."""

__all__: list[str] = []  # modules are imported by name: predicting must not load what only learning needs
