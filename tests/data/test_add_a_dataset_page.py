"""The example in docs/add-a-dataset.md runs as it stands."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sparcl.data import DATASETS, load_stream
from sparcl.errors import SparclError

PAGE = Path(__file__).parents[2] / "docs" / "add-a-dataset.md"


def test_the_example(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, use = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    folder = tmp_path / "data" / "stamps"
    folder.mkdir(parents=True)
    lines = [f"{label} " + " ".join(["7"] * 64) for label in np.arange(80) % 4]
    (folder / "train.txt").write_text("\n".join(lines))
    (folder / "test.txt").write_text("\n".join(lines[:20]))
    names: dict[str, object] = {}
    try:
        exec(source, names)
        exec(use, names)
        assert capsys.readouterr().out == "('king', 'queen', 'ship', 'tree') [36, 36]\n"
        (folder / "train.txt").write_text("\n".join([*lines, "4 1 2 3"]))
        with pytest.raises(SparclError, match=r"train.txt, line 81: expected a label and 64 grey levels"):
            load_stream("stamps")
    finally:
        DATASETS.pop("stamps", None)


def test_its_commands(tmp_path: Path) -> None:
    source, _ = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    (tmp_path / "stamps.py").write_text(source)
    folder = tmp_path / "data" / "stamps"
    folder.mkdir(parents=True)
    lines = [f"{label} " + " ".join(["7"] * 64) for label in np.arange(80) % 4]
    (folder / "train.txt").write_text("\n".join(lines))
    (folder / "test.txt").write_text("\n".join(lines[:20]))
    (commands,) = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    check, run = commands.strip().splitlines()
    small = " --set epochs=1 --set model=convnet --set width=4 --quiet"
    for command in (check, run + small):
        finished = subprocess.run(
            [sys.executable, "-m", "sparcl.cli.main", *command.split()[1:]],
            cwd=tmp_path,
            env=os.environ | {"SPARCL_DATA": str(tmp_path / "data"), "SPARCL_CACHE": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert finished.returncode == 0, finished.stderr
