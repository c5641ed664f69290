"""For all tests: no test is about time, so none may fail because the machine is busy."""

import os

from hypothesis import settings

# Tests run side by side: threads that wait must not keep a core from the others.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
