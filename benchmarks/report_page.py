"""How long a browser takes to show the page of some runs, against an empty page.

python -m benchmarks.report_page RUN...

Both are loaded in turns in a fresh headless Chromium; the time of the empty page is that of starting the browser.
"""

import shutil
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from sparcl.bench.timing import in_turns, seconds_of
from sparcl.report.page.assemble import page, sections
from sparcl.report.run_record import RunRecord

ROUNDS = 5


def show(browser: str, path: Path) -> None:
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", path.as_uri()]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)


def main() -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None or not sys.argv[1:]:
        sys.exit("Name some run directories; Chromium must be installed.")
    runs = [Path(run) for run in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as directory:
        empty, full = Path(directory) / "empty.html", Path(directory) / "full.html"
        empty.write_text("<!doctype html><title>empty</title>")
        written = seconds_of(lambda: full.write_text(page("runs", sections([RunRecord.read(run) for run in runs]))))
        times = in_turns(
            {file.stem: partial(seconds_of, partial(show, browser, file)) for file in (empty, full)}, ROUNDS
        )
        size = full.stat().st_size
    nothing, everything = (statistics.median(times[name]) for name in ("empty", "full"))
    print(f"page: {size / 1e6:.2f} MB, made in {written:.2f} s")
    beyond = f"{everything - nothing:.2f} s beyond the {nothing:.2f} s of an empty page"
    print(f"shown in {beyond}: {everything / nothing:.2f}x")


if __name__ == "__main__":
    main()
