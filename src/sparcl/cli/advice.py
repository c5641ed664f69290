"""What an error of the library means on the command line."""

from sparcl.errors import SparclError, UnfinishedError
from sparcl.wording import quoted


def advised(error: SparclError) -> str:
    """The message, with the command that helps where there is one."""
    if not isinstance(error, UnfinishedError):
        return str(error)
    directory = quoted(error.directory)
    if error.what == "run":
        return f"{error} Continue it with: sparcl run --resume {directory}"
    return f"{error} Continue it: sparcl learn {directory} --resume; or drop it: sparcl undo {directory}"
