"""The options that benchmarks share; showing a table, and writing it into a document at the marks of its section."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from sparcl.bench.machine import Machine
from sparcl.bench.tables import Table, with_origin
from sparcl.errors import SparclError
from sparcl.network.backend import available_cores
from sparcl.report.sections import check_section, replace_section


def parser(description: str | None, section: str) -> argparse.ArgumentParser:
    """`section`: where in the document the table belongs."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--into", type=Path, help="a Markdown file to write the table into, at the marks of its section")
    made.set_defaults(section=section)
    return made


def parsed(made: argparse.ArgumentParser) -> argparse.Namespace:
    """The options; that the table can be written is checked before anything is measured."""
    options = made.parse_args()
    try:
        check_section(options.into, options.section)
    except SparclError as error:
        made.error(str(error))
    return options


def publish(
    options: argparse.Namespace,
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    protocol: str,
    threads: int = 0,
    notes: Sequence[str] = (),
) -> None:
    text = Table(headings, rows).markdown()
    print("\n\n".join([text, *notes]))
    if options.into is not None:
        machine = Machine.describe(threads or available_cores())
        replace_section(options.into, options.section, with_origin(text, machine, protocol, notes))
