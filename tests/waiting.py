"""Waiting for what another thread or process does, and tells nobody."""

import time
from collections.abc import Callable

WAIT_S = 60.0
POLL_S = 0.01


def wait_for(condition: Callable[[], object]) -> None:
    """Until it is true, asked again and again; AssertionError when that takes too long."""
    end_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end_s, "it never came to that"
        time.sleep(POLL_S)
