"""Errors a person can act on: the command line prints them as one line and exits non-zero, without a traceback."""


class SparclError(Exception):
    """Something outside the program is wrong (input, settings, disk). The message says what, where, and what to do."""
