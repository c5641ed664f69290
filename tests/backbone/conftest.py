import sys
from pathlib import Path

import pytest

# The independent networks of the tests of `network` and `weights` are the reference here too.
sys.path.insert(0, str(Path(__file__).parents[1] / "network"))


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Backbones of the user are in here."""
    monkeypatch.setenv("SPARCL_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "backbones"
