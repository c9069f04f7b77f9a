"""Durations that an application gives."""

from __future__ import annotations

import math
from typing import Final

MS_A_SECOND: Final = 1_000


def check_duration(name: str, value: float | None) -> None:
    """Raises ValueError for a negative time, and for what is no number; None is no time at all."""
    if value is not None and (math.isnan(value) or value < 0):
        raise ValueError(f"{name} is {value}; it is 0 or more")
