"""Times of the broker, µs since 1970, as people read them."""

import time
from typing import Final

_US_A_S: Final = 1_000_000


def age_s(time_us: int) -> int:
    """So many seconds ago."""
    return max(0, round(time.time() - time_us / _US_A_S))


def moment(time_us: int) -> str:
    """In UTC, with the number that it is; 0 is never."""
    if time_us == 0:
        return "never"
    whole = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time_us // _US_A_S))
    return f"{whole} ({time_us})"
