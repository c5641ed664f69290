"""Commands of `sparcl`, as benchmarks run them."""

import contextlib
import os
import subprocess
import sys

from sparcl.cli.main import main

SPARCL = (sys.executable, "-m", "sparcl.cli.main")


def sparcl(*arguments: object) -> str:
    """What a command prints, in a process of its own. If it fails, so does the benchmark."""
    command = [*SPARCL, *map(str, arguments)]
    finished = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if finished.returncode:
        sys.exit(finished.returncode)
    return finished.stdout


def sparcl_here(*arguments: object) -> None:
    """In this process, silently."""
    before, sys.argv = sys.argv, ["sparcl", *map(str, arguments)]
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise
        finally:
            sys.argv = before
