"""Runs to look at, made once for all tests."""

from pathlib import Path

import pytest
from small_runs import small_run


@pytest.fixture(scope="session")
def dense(tmp_path_factory) -> Path:
    return small_run(tmp_path_factory.mktemp("runs") / "dense", "digits/derpp")


@pytest.fixture(scope="session")
def sparse(tmp_path_factory) -> Path:
    return small_run(tmp_path_factory.mktemp("runs") / "sparse", "digits/sparcl-derpp-90")
