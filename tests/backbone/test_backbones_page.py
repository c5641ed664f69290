"""The page about backbones: its code runs, what it writes can be imported, and its numbers are right."""

import re
import subprocess
import sys
from pathlib import Path

from sparcl.backbone import DEFAULT_BACKBONE, find_backbone
from sparcl.backbone.importing import import_backbone

PAGE = (Path(__file__).parents[2] / "docs" / "backbones.md").read_text()


def test_the_code_of_the_page_makes_a_backbone(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert finished.returncode == 0, finished.stderr
    backbone, _ = import_backbone(tmp_path / "small.safetensors")
    assert (backbone.name, backbone.features, backbone.size, backbone.mean) == ("small", 32, 64, (0.5, 0.5, 0.5))


def test_the_table_says_what_is_in_the_package():
    backbone = find_backbone(DEFAULT_BACKBONE)
    side, megabytes = f"{backbone.size}x{backbone.size}", backbone.path.stat().st_size / 1e6
    assert re.search(rf"\| `{backbone.name}` \|.*\| {side} \| {backbone.features} \| {megabytes:.1f} MB \|", PAGE)
