"""Showing a benchmark's table, and writing it into a document at the marks of its section."""

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from sparcl.bench import tables
from sparcl.bench.machine import Machine
from sparcl.network.backend import available_cores
from sparcl.report.comparison import replace_section


def parser(description: str | None) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--into", type=Path, help="a Markdown file to write the table into, at the marks of its section")
    return made


def publish(
    section: str,
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    protocol: str,
    into: Path | None,
    threads: int = 0,
    notes: Sequence[str] = (),
) -> None:
    text = tables.table(headings, rows)
    print("\n\n".join([text, *notes]))
    if into is None:
        return
    machine = Machine.describe(threads or available_cores())
    module = sys.modules["__main__"].__spec__
    command = shlex.join(["python", "-m", module.name if module else section, *sys.argv[1:]])
    replace_section(into, section, f"{text}\n\n{tables.origin(machine, protocol, notes, command)}")
