"""What all tests share: Hypothesis without deadlines, since no test asserts a time, and with the same
examples in every run; `make explore` has it choose new ones."""

import os

from hypothesis import HealthCheck, settings

EXPLORES = bool(os.environ.get("POSTROOM_EXPLORE"))

settings.register_profile(
    "postroom",
    deadline=None,
    derandomize=not EXPLORES,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("postroom")
