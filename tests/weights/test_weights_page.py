"""The page about weights: its code runs as it stands, and its commands do what it says."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "weights.md").read_text()


def test_the_code_of_the_page_runs(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert finished.returncode == 0, finished.stderr
    said = re.search(r"print\(error\)  # (.*)", code)[1]
    assert said in finished.stdout and "{'conv1.weight': (4, 3, 3, 3)}" in finished.stdout
