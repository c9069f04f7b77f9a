"""The two clocks of the server, in µs: what time it is, and how much has passed."""

import time


def wall_us() -> int:
    """Time of day since the epoch: what the ledger and expiry go by. May jump."""
    return time.time_ns() // 1000


def monotonic_us() -> int:
    """Time that only passes: what heartbeats and turns go by."""
    return time.monotonic_ns() // 1000
