"""The whole page about a learner: a single file that asks nothing of the network."""

from pathlib import Path

from sparcl.errors import SparclError
from sparcl.instant.page import classes, confusion, overview, progress, suspects
from sparcl.instant.page.subject import Subject
from sparcl.instant.state import InstantState
from sparcl.report.page.assemble import page


def learner_page(directory: Path, state: InstantState) -> str:
    subject = Subject(directory, state, state.examined())
    try:
        content = [part.section(subject) for part in (overview, classes, confusion, progress, suspects)]
    except ValueError as error:
        raise SparclError(f"{directory} cannot be shown: {error}.") from error
    return page(f"What {directory.resolve().name} knows", content)
