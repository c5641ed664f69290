"""Reference runs, made once for all tests."""

import pytest
from runs import SMALL, everything_that_must_be_identical, sparcl


@pytest.fixture(scope="session")
def uninterrupted(tmp_path_factory) -> dict[str, dict[str, object]]:
    """What an undisturbed run of each method leaves behind, made when first asked for."""
    made: dict[str, dict[str, object]] = {}

    class Reference(dict):
        def __missing__(self, method: str) -> dict[str, object]:
            directory = tmp_path_factory.mktemp("reference") / method
            finished = sparcl("run", f"digits/{method}", *SMALL, "--out", directory, "--quiet")
            assert finished.returncode == 0, finished.stderr
            self[method] = everything_that_must_be_identical(directory)
            return self[method]

    return Reference(made)
