"""For all tests: no test is about time, so none may fail because the machine is busy."""

import contextlib
import os
import signal

import pytest
from hypothesis import settings

# Tests run side by side: threads that wait must not keep a core from the others.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_configure(config):
    if hasattr(config, "workerinput"):  # of pytest-xdist
        os.setpgrp()  # so that what the tests start can be ended with the worker


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    """What a test has started that crashed or hung does not outlive it."""
    if error:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(node.gateway._rinfo().pid, signal.SIGKILL)  # xdist has asked for it: it is known
