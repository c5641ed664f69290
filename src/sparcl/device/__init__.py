"""The learner that lives in a directory: it learns classes from folders of pictures, as they come.

Nothing is imported here: predicting must not load what only learning needs.
"""
