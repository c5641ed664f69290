"""The example in docs/add-a-dataset.md runs as it stands."""

import re
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
