"""For all tests: no test is about time, so none may fail because the machine is busy."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
