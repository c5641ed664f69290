"""`sparcl watch`: the report page, live."""

import signal
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from sparcl.errors import SparclError
from sparcl.report.live import LiveRuns, Server

HELP = """Show the page of `sparcl report` in a browser, updated while runs are in progress.

DIR is a run directory, or a directory of runs. New runs appear as soon as they start; if there are many, the twelve
most recently written are shown. The page is served to this machine only. Ctrl-C stops the server, not the runs.

\b
sparcl watch runs                                    # the newest runs in it
sparcl watch runs/digits-derpp-seed0 --port 8000 --no-browser
"""


def watch(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A run directory, or a directory of runs.")],
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 picks a free one.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
) -> None:
    if not directory.is_dir():
        raise SparclError(f"{directory} is not a directory. Name a run, or the directory of your runs (often: runs).")
    for number in (signal.SIGINT, signal.SIGTERM):  # also SIGINT: a shell switches it off for jobs in the background
        signal.signal(number, signal.default_int_handler)
    with Server(LiveRuns(directory), port) as server:
        print(f"Watching {directory} at {server.url} (Ctrl-C to stop)", flush=True)
        if browser:
            webbrowser.open(server.url)
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            print("Stopped.")


watch.__doc__ = HELP
