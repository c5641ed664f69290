"""What an error of the library means on the command line."""

from sparcl.errors import SparclError, UnfinishedError
from sparcl.wording import quoted


def advised(error: SparclError) -> str:
    """The message, with a command where the library names a method."""
    if not isinstance(error, UnfinishedError):
        return str(error)
    directory = quoted(error.directory)
    if error.what == "run":
        return f"{error.problem} Continue it with: sparcl run --resume {directory}"
    return f"{error.problem} Continue it: sparcl learn {directory} --resume; or drop it: sparcl undo {directory}"
