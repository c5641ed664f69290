"""docs/add-an-operation.md, followed to the letter in a copy of the sources: four files, and the engine has it."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMON = {"capture_output": True, "text": True, "check": False, "timeout": 900}


def added(path: Path, lines: dict[str, str]) -> None:
    """Each new line before the first one that has the text."""
    content = path.read_text()
    for before, new in lines.items():
        place = content.index(before)
        content = content[:place] + new + content[place:]
    path.write_text(content)


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    copied = tmp_path_factory.mktemp("sources")
    leave_out = shutil.ignore_patterns("__pycache__", "*.so")
    for part in ("src", "native"):
        shutil.copytree(ROOT / part, copied / part, ignore=leave_out)
    shutil.copy(ROOT / "CMakeLists.txt", copied)
    return copied


def test_the_page_adds_an_operation_in_four_files(copy):
    page = (ROOT / "docs" / "add-an-operation.md").read_text()
    python, python_line, trial = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    native, native_line = re.findall(r"```cpp\n(.*?)```", page, flags=re.DOTALL)
    operations = copy / "src" / "sparcl" / "operations"
    (operations / "absolute.py").write_text(python)
    added(
        operations / "__init__.py",
        {"from sparcl.operations.activation": python_line, '    "Add",': '    "Absolute",\n'},
    )
    (copy / "native" / "operations" / "absolute.inc").write_text(native)
    added(
        copy / "native" / "operations" / "table.inc",
        {'#include "average_pool.inc"': native_line, "&average_pool,": "&absolute, "},
    )
    nanobind = subprocess.run([sys.executable, "-m", "nanobind", "--cmake_dir"], **COMMON).stdout.strip()
    build, cmake = copy / "build", Path(sys.executable).with_name("cmake")
    options = [f"-DPython_EXECUTABLE={sys.executable}", f"-Dnanobind_DIR={nanobind}", "-DSPARCL_OPTIMISE=none"]
    for command in (
        [cmake, "-S", copy, "-B", build, *options],
        [cmake, "--build", build, "--target", "_engine", "--parallel", "2"],
    ):
        finished = subprocess.run(list(map(str, command)), **COMMON)
        assert finished.returncode == 0, finished.stdout[-3000:] + finished.stderr[-3000:]
    shutil.copy(next(build.glob("_engine*.so")), copy / "src" / "sparcl")
    # An editable installation finds its own sources first.
    ours = "import sys\nsys.meta_path[:] = [f for f in sys.meta_path if 'ScikitBuild' not in type(f).__name__]\n"
    ours += f"sys.path.insert(0, {str(copy / 'src')!r})\n"
    finished = subprocess.run([sys.executable, "-c", ours + trial], **COMMON)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout == "absolute is right\n"
