"""The developers' benchmarks still fit the package. No test looks at a time."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMES = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py") if path.stem != "__init__")


@pytest.mark.parametrize("name", NAMES)
def test_it_can_be_imported(name, monkeypatch):
    """So it names nothing that is not there any more, at its top."""
    monkeypatch.syspath_prepend(str(ROOT))
    module = importlib.import_module(f"benchmarks.{name}")
    assert module.__doc__


def run(name, *options):
    command = [sys.executable, "-m", f"benchmarks.{name}", *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


@pytest.mark.parametrize(("name", "section"), [("gradient_masks", "masks"), ("mask_rebuild", "rebuild")])
def test_a_table_is_shown_and_written(name, section, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n<!-- begin {section} -->\nold\n<!-- end {section} -->\nafter\n")
    repeated = "--rounds" if name == "gradient_masks" else "--repeats"
    finished = run(name, "--width", 2, repeated, 1, "--into", page)
    assert finished.returncode == 0, finished.stderr
    rows = [line.strip("| ").split(" | ") for line in finished.stdout.splitlines()[2:]]
    assert [row[0] for row in rows] == ["0.75", "0.9", "0.95"]
    assert all(float(cell) >= 0 for row in rows for cell in row)
    text = page.read_text()
    assert finished.stdout.strip() in text and "old" not in text and text.endswith("after\n")
    assert f"by `python -m benchmarks.{name} --width 2" in text


def test_a_document_without_the_section_is_refused_before_anything_is_measured(tmp_path):
    (tmp_path / "page.md").write_text("nothing here")
    finished = run("end_to_end", "--into", tmp_path / "page.md")
    assert finished.returncode == 2
    assert finished.stderr.splitlines()[-1].endswith(
        "page.md has no section 'end-to-end': it needs the lines <!-- begin end-to-end --> and <!-- end end-to-end -->."
    )
